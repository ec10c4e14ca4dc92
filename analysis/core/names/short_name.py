"""A recorded name → the one short form used in every list, report and sentence.

The form says what a kernel computes, on which type and tile, and leaves out its namespaces and tuning parameters:
``at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, …>`` is ``add<float> elementwise``.
It does not depend on the available width; cutting comes later. Invariants: the raw name is what is stored, searched,
filtered and exported in machine formats; time is linear in the name, whatever it contains.

Kernel generators and libraries name GEMMs, convolutions, collectives and copies by patterns of their own. Each rule
reads one pattern; tuning parameters (stages, alignment, vector widths) are shown only where two names in a table would
otherwise read alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache

from ..text import clean, cut
from . import functors
from .cpp import Name, demangled, is_mangled, parsed, source_names

_LONGEST = 8192  # Characters of a demangled name that are parsed.

_CPP = re.compile(r"^void |^(?:at|c10|std|native|cub|thrust)::|[\w>]<.|^.+\)$|^\(anonymous namespace\)::", re.S)
_DESCRIPTOR = re.compile(r"(?:\.kd| \[clone \.kd\])$")  # AMD records the kernel's descriptor, not its code.
_API_VERSION = re.compile(r"^((?:cuda|cu[A-Z]|hip)\w+)_v\d{4,5}$")  # Nsight Systems appends the API version.
_PYTHON = re.compile(r"^<|^\w+\.py|: ")
_GENERIC = re.compile(r"(?:[Kk]ernel\d?|globalKernel|kernel_\w{1,4}|run|apply|operator\(\)|impl|type)$")
_NO_SUBJECT = frozenset(("", "impl", "detail", "internal", "kernel", "kernels", "device", "native"))
_TAIL = re.compile(r"(?:_?(?:cuda_)?kernel|Kernel|_kernel_cuda|CUDAKernel)$")


IN_RUNS: ContextVar[Callable[[str, int], str | None] | None] = ContextVar("IN_RUNS", default=None)
"""The short names of the runs in question, set by ``display_names.speaking_of``."""


@lru_cache(maxsize=65_536)
def short_name(raw: str | None) -> str:
    """The short form as display text of any width; a name that follows no known pattern is only cleaned."""
    if raw is None:  # an activity without a name
        return clean(raw)
    text = _DESCRIPTOR.sub("", raw if len(raw) <= _LONGEST else raw[:_LONGEST])
    if is_mangled(raw):
        readable = demangled(raw)
        if readable is None:
            return clean(next((one for one in source_names(text) if not functors.wraps(one)), raw))
        text = readable[:_LONGEST]
    text = _API_VERSION.sub(r"\1", text)
    result = short_generated(text) or (_cpp(text) if _CPP.search(text) and not _PYTHON.search(text) else None)
    return clean(result) if result and result.strip() else clean(text) or clean(raw)


def fit_name(raw: str | None, width: int) -> str:
    """The name's text in the current runs, at most ``width`` cells; if it has none there, its short form, cut."""
    in_runs = IN_RUNS.get()
    text = in_runs(raw, width) if in_runs is not None and raw is not None else None
    return cut(short_name(raw), width) if text is None else text


def full_text(raw: str) -> str:
    """The name as C++ text, demangled if it was mangled: the text in which names are compared."""
    return (demangled(raw) if is_mangled(raw) else None) or raw


def _cpp(text: str) -> str | None:
    """A C++ kernel by its functor, type and tile; None if it cannot be parsed."""
    name = parsed(text)
    if name is None:
        return None
    own = name.last
    word = functors.functor_family(own)
    if word is not None:
        result = functors.functor(own)
        if result is None:
            return None if own.arguments == [] else word
        kind = result[1] or functors.first_dtype(name)
        typed = f"<{kind}>" if kind else ""
        return f"{word}{typed}" if word in result[0] else f"{result[0]}{typed} {word}"
    name = functors.unwrapped(name)
    own = name.last
    generated = short_generated(own.name)
    return generated or _named(name)


def _named(name: Name) -> str | None:
    """Any other kernel: its own name, then its type, tile and functor."""
    own = name.last
    base = own.name
    if _GENERIC.fullmatch(base):
        scopes = [part.name for part in name.parts[: name.parts.index(own)] if part.name not in _NO_SUBJECT]
        taken = (_CUBLAS.match(one.last.name) for one in own.arguments or () if one.parts)
        base = scopes[-1] if scopes else next((match[1].lower() for match in taken if match), base)
    else:
        base = _TAIL.sub("", base) or base
    kind = functors.first_dtype(Name([own]))
    says = [kind, functors.head_tile(own) or functors.tile(name), functors.extra(own)]
    inside = ", ".join(dict.fromkeys(filter(None, says)))
    return f"{base}<{inside}>" if inside else base


_CUBLAS = re.compile(r"cublas(Gem[mv])")  # cublasGemvParamsEx: says what a kernel named "kernel" does
_LONGEST_IDENTIFIER = 512  # Longest generated identifier, in characters.

_TILE = re.compile(r"(?:tilesize|t|MT|bt)?(\d+x\d+(?:x\d+)?)(?:u\d+)?$")
_GEMM = re.compile(r"(?:[a-z]?\d*gemm|[hsd]cudnn|[hsdi]?\d*(?:fprop|dgrad|wgrad))\w*$")
_VENDOR = re.compile(
    r"(?:maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell|sm\d+|cutlass\w*?|cudnn|cublas\w*?|xmma|fused)_"
)
_INPUT = re.compile(
    r"(?:(f64|f32|tf32|f16|bf16|fp16|bf16f16|s8|u8|i8|e4m3|e5m2|s32|fp8|fp4|e2m1|mxf4|mxf8)(?:\1|f32|f16|s32)?)$"
)
_LAYOUT = re.compile(r"[nt]{2,3}$|n(?:hwc|chw)\w*$|ndhwc$")
_FUSED = ("relu", "gelu", "bias", "silu", "splitK", "stridedB", "ffma", "winograd", "3dconv", "aux", "tanh", "swish")
_DTYPES = {"f32": "float", "f64": "double", "f16": "half", "fp16": "half", "bf16": "bf16", "tf32": "tf32"}

_TENSILE = re.compile(r"(?:Custom_)?Cijk_A([a-z])[a-z]{1,4}_B([a-z])[a-z]{1,4}_(.{1,160}?)_MT(\d{1,5}x\d{1,5}x\d{1,5})")
_TENSILE_TYPES = {
    "H": "half", "B": "bf16", "S": "float", "D": "double", "I8": "int8", "F8": "fp8", "B8": "bf8", "C": "cfloat",
    "Z": "cdouble", "X": "tf32", "4xi8": "int8",
}
_NVJET = re.compile(r"nvjet_(?:sm\d+_)?([a-z]+)_(\d+x\d+)_(\w+)$")
_NCCL = re.compile(r"(?:void )?([nr]ccl|msccl)[A-Za-z]{0,24}Kernel[A-Za-z]{0,24}_([A-Za-z]\w{0,200})")
_NCCL_TYPES = (
    "hip_bfloat16", "bfloat16", "bf16", "float", "half", "double", "int8_t", "uint8_t", "int32_t", "uint32_t",
    "int64_t", "uint64_t", "i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "fp8_e4m3", "fp8_e5m2",
)
_NCCL_SUMS = frozenset(("Sum", "Prod", "Min", "Max", "MinMax", "Avg"))
_IGEMM = re.compile(
    r"igemm_(fwd|bwd|wrw)_[a-z0-9]{1,12}_(n[a-z]{2,6})_([a-z]+\d+)_\w{1,40}?_bt(\d{1,5}x\d{1,5}x\d{1,5})"
)
_ACLNN = re.compile(r"aclnn([A-Z][A-Za-z0-9]*)_\w{1,200}_([A-Z][A-Za-z0-9]*)$")
_COPY = re.compile(r"(Mem(?:cpy|set))(?: (\w+))? \((\w+)(?: -> (\w+))?\)$")
_FRAME = re.compile(r"(?:.*[/\\])?([^/\\]+\.pyx?|<[^<>]{1,80}>)\((\d+)\): (.+)$", re.S)
_JAX_FRAME = re.compile(r"\$([^\s/\\]+\.py:\d+ .+)$", re.S)
_BUILT_IN = re.compile(
    r"<built-in (?:method|function) (\S+)(?: of (?:type|(\w[\w.]*))(?: object)?(?: at 0x[0-9a-fA-F]+)?)?>$"
)
_AUTOGRAD = re.compile(r"autograd::engine::evaluate_function: (.+)$", re.S)


def short_generated(text: str) -> str | None:
    """The short form of a name that follows one of the known patterns; None for all others. Linear in the text."""
    for rule in _RULES:
        if result := rule(text):
            return result
    for pattern, spell in _SPELLED:
        if match := pattern.match(text):
            return spell(match)
    return None


def _library_gemm(text: str) -> str | None:
    """cuBLAS, CUTLASS, cuDNN: ``ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_stages_64x5_tn`` is gemm bf16 64x64 tn."""
    if len(text) > _LONGEST_IDENTIFIER or not _VENDOR.match(text) or "::" in text or "(" in text:
        return None
    fields = text.split("_")
    at = next((number for number, field in enumerate(fields) if _GEMM.match(field)), None)
    if at is None:
        return None
    tile = next((match[1] for field in fields if (match := _TILE.match(field)) and "x" in field), None)
    if tile is None:
        return None
    kinds = [match[1] for field in fields if (match := _INPUT.match(field))]
    kind = _DTYPES.get(kinds[0], kinds[0]) if kinds else None
    operation = fields[at]
    if kind:
        operation = re.sub(r"^[a-z]?\d+(?=gemm|fprop|dgrad|wgrad)|^[sh](?=gemm)", "", operation)
    layout = next((field for field in fields[at:] if _LAYOUT.match(field)), None)
    fused = [word for word in _FUSED if word in fields[at:] or word in fields]
    return " ".join(filter(None, (operation, kind, tile, layout, *fused)))


def _tensile(text: str) -> str | None:
    """``Cijk_Alik_Bljk_BBS_BH_Bias_…_MT128x160x64_…``: A is transposed if the GEMM sums over its first index."""
    match = _TENSILE.match(text)
    if not match:
        return None
    transposed = ("T" if match[1] == "l" else "N") + ("N" if match[2] == "l" else "T")
    fields = match[3].split("_")
    letters = re.match(r"I8|F8|B8|4xi8|[HBSDCZX]", fields[0])
    kind = _TENSILE_TYPES.get(letters[0], fields[0]) if letters else fields[0]
    bias = "bias" if "Bias" in fields else ""
    return " ".join(filter(None, ("gemm", kind, match[4], transposed, bias)))


def _nvjet(text: str) -> str | None:
    match = _NVJET.match(text)
    if not match:
        return None
    rest = match[3].split("_")
    fused = [field for field in rest if field in ("bias", "gelu", "relu", "splitK", "splitk", "aux")]
    layout = [field for field in rest[-1:] if re.fullmatch(r"[NT]{2,3}", field)]
    return " ".join(("nvjet", match[1], match[2], *layout, *fused))


def _collective(text: str) -> str | None:
    """NCCL, RCCL, MSCCL: ``ncclDevKernel_AllReduce_Sum_bf16_RING_LL(…)`` is nccl AllReduce Sum bf16 RING LL."""
    match = _NCCL.match(text)
    if not match:
        return None
    operation, _, rest = match[2].partition("_")
    kind = next((one for one in _NCCL_TYPES if re.search(rf"(?:^|_){one}(?:_|$)", rest)), "")
    fields = re.sub(rf"(?:^|_){kind}(?=_|$)", "", rest, count=1).split("_") if kind else rest.split("_")
    sums = [field for field in fields if field in _NCCL_SUMS]
    moves = [field for field in fields if field not in _NCCL_SUMS]
    if operation in ("SendRecv", "Broadcast", "AllGather"):  # no reduction, and the type is just bytes
        sums, kind = [], ""
    return " ".join(filter(None, (match[1], operation, *sums, kind, *moves)))


def _copy(text: str) -> str | None:
    """``Memcpy HtoD (Pinned -> Device)``: only the host side, pageable or pinned, is kept."""
    match = _COPY.match(text)
    if not match:
        return None
    sides = [side for side in (match[3], match[4]) if side and side not in ("Device", "Unknown", "Host")]
    return " ".join(filter(None, (match[1], match[2], f"({', '.join(sides)})" if sides else "")))


_RULES: tuple[Callable[[str], str | None], ...] = (_copy, _collective, _tensile, _nvjet, _library_gemm)
_SPELLED: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (_IGEMM, lambda at: f"igemm {at[1]} {_DTYPES.get(at[3], at[3])} {at[4]} {at[2]}"),
    (_ACLNN, lambda at: f"{at[2]} in {at[1]}"),  # the kernel, and the aclnn call it belongs to, of CANN's library
    (_FRAME, lambda at: f"{at[1].strip('<>')}:{at[2]} {at[3]}"),  # without its folders: loss.py:41 forward
    (_JAX_FRAME, lambda at: at[1]),  # $array.py:12 add
    (_BUILT_IN, lambda at: f"{at[1]} of {at[2]}" if at[2] else at[1]),
    (_AUTOGRAD, lambda at: f"autograd {at[1]}"),
)
