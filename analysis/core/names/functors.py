"""Operation and element type of a C++ kernel, from the parsed tree of its name.

PyTorch launches most of its small kernels through a handful of templates (``elementwise_kernel``, ``reduce_kernel``,
``multi_tensor_apply_kernel``), and libraries through wrappers (``cutlass::Kernel``, ``ck_tile::kentry``). Such kernels
differ only in the functor deep inside the arguments, among arrays, offset calculators and lambdas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .cpp import Name, NamePart

_FAMILIES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), word) for pattern, word in (
        (r"_?scatter_gather_elementwise_kernel", "scatter_gather"),
        (r"index_elementwise_kernel", "index"),
        (r"distribution_(?:elementwise|binary)\w*_kernel", "random"),
        (r"\w*elementwise_kernel\w*", "elementwise"),
        (r"reduce_kernel\w*", "reduce"),
        (r"multi_tensor_apply_kernel\w*", "foreach"),
    )
)
_WRAPPERS = re.compile(
    r"(?:Kernel2?|kernel2?|kentry\w*|device_kernel|trampoline_kernel|globalKernel|_?kernel_agent|run_kernel|entry"
    r"|enable_sm\w+|sm\d+_kernel|device_function)$"
)
_HOLDS_FUNCTOR = re.compile(
    r"(?:(?:opmath_)?(?:symmetric_)?gpu_\w*kernel\w*|func_wrapper_t|ReduceOp|[ABU]?(?:Unary|Binary)Functor"
    r"|(?:Unary|Binary)Op\w*Functor|Pointwise\w*Functor|\w+_and_transform|_cuda_scatter_gather_internal_kernel"
    r"|wrapped_\w+|cuda_scatter_gather_\w+|binary_\w+_functor_wrapper)$"
)
_STORAGE = re.compile(
    r"(?:Array$|array$|OffsetCalculator$|(?:Load|Store)With\w*Cast$|TensorList\w*Metadata$|Tensor(?:Info|Accessor)"
    r"|(?:Policy|Policies|Params?|State|Iterator|Config|config|Metadata|Epilogue\w*Params|NullType|Problem|Shape"
    r"|Layout|Tag|GeneratorImpl|nullptr|policy_hub|nullptr_t|Struct|Batched|TraitsBase|target_arch|integral_constant)\d*$"
    r"|Policy\d+$|gfx\d\w*$|cublas\w+$|adamMode_t$|PackedTensor\w+$|memory$|determinism$)"
)
_STD_OPERATION = re.compile(
    r"(?:plus|minus|multiplies|divides|modulus|negate|greater\w*|less\w*|equal_to|logical_\w+|bit_\w+|Sum|Max|Min"
    r"|maximum|minimum)$"
)
TYPES = {
    "Half": "half", "__half": "half", "half_t": "half", "_Float16": "half", "__half2": "half2", "half": "half",
    "float16_t": "half", "BFloat16": "bf16", "__nv_bfloat16": "bf16", "__hip_bfloat16": "bf16", "bfloat16_t": "bf16",
    "hip_bfloat16": "bf16", "__bf16": "bf16", "bf16_t": "bf16", "fp16_t": "half", "tfloat32_t": "tf32",
    "Float8_e4m3fn": "fp8e4m3", "Float8_e4m3fnuz": "fp8e4m3", "Float8_e5m2": "fp8e5m2", "Float8_e5m2fnuz": "fp8e5m2",
    "__nv_fp8_e4m3": "fp8e4m3", "__nv_fp8_e5m2": "fp8e5m2", "float_e4m3_t": "fp8e4m3", "float_e5m2_t": "fp8e5m2",
    "float": "float", "double": "double", "bool": "bool", "char": "char", "signed char": "int8",
    "unsigned char": "uint8", "short": "short", "unsigned short": "ushort", "int": "int", "unsigned int": "uint",
    "unsigned": "uint", "long": "long", "unsigned long": "ulong", "long long": "long", "unsigned long long": "ulong",
    "float2": "float2", "float4": "float4", "int8_t": "int8", "uint8_t": "uint8", "int16_t": "short",
    "int32_t": "int", "uint32_t": "uint", "int64_t": "long", "uint64_t": "ulong",
}
"""Display names of element types, by the last component of the C++ type."""

_AFFIXES = re.compile(
    r"^(?:CUDAFunctor(?:OnSelf|OnOther)?_|_+)|(?:_?(?:Functor|functor)|Ops|_ops|(?:_?cuda)?_?kernels?(?:_(?:cuda|impl|out))*"
    r"|_(?:cuda|impl|cuda_out|gpu)|(?:CUDA)?Kernel(?:Impl)?|CUDA)$"
)
_PRODUCT = re.compile(r"gem[mv]|splitK|dot_kernel|gemvx|^kernel$")
_FLOATS = frozenset(("float", "half", "bf16", "double", "tf32", "fp8e4m3", "fp8e5m2"))
_WORDY = re.compile(r"[a-z]")
_INTEGER = re.compile(r"\d+(?:[uUlL]*)$")
_LAYOUTS = ("RestrictPtrTraits", "Array", "array")


def functor_family(part: NamePart) -> str | None:
    """The family of a generic PyTorch kernel: elementwise, reduce, foreach; None for any other kernel."""
    if part.arguments is None:
        return None
    return next((word for pattern, word in _FAMILIES if pattern.fullmatch(part.name)), None)


def wraps(name: str) -> bool:
    """Whether the name says no more than that it is a kernel."""
    return bool(_WRAPPERS.fullmatch(name))


def unwrapped(name: Name) -> Name:
    """The kernel inside uninformative wrappers: ``cutlass::Kernel<X>`` is X."""
    for _ in range(4):
        part = name.last
        if not _WRAPPERS.fullmatch(part.name) or not part.arguments:
            return name
        inner = [one for one in part.arguments
                 if dtype_of(one) is None and not _literal(one) and not _is_layout_or_tuning(one)]
        if not inner:
            return name
        name = next((one for one in inner if one.called is not None or one.last.name.endswith("_impl")), inner[0])
    return name


def dtype_of(name: Name) -> str | None:
    """The display name of an element type; None if the name is not one."""
    part = name.parts[-1]
    if part.name == "OpaqueType" and part.arguments:
        return f"{_digits(part.arguments[0].last.name)}B"
    if part.name == "complex" and part.arguments:
        return f"complex<{dtype_of(part.arguments[0]) or '?'}>"
    if part.name == "vec_n" and part.arguments:
        return dtype_of(part.arguments[0])
    return TYPES.get(part.name)


def first_dtype(name: Name, depth: int = 0) -> str | None:
    """The first element type among the arguments, outer ones before nested ones. A matrix product's leading integer
    types are index types, not element types, and are skipped."""
    arguments = [one for part in name.parts for one in part.arguments or ()]
    kinds = [kind for kind in map(dtype_of, arguments) if kind]
    counts = bool(_PRODUCT.search(name.last.name)) and any(kind in _FLOATS for kind in kinds)
    own = next((kind for kind in kinds if not counts or kind in _FLOATS), None)
    if own or depth > 6:
        return own
    inner = (first_dtype(one, depth + 1) for one in arguments if not _literal(one) and one.last.name not in _LAYOUTS)
    return next(filter(None, inner), None)


def functor(part: NamePart) -> tuple[str, str | None] | None:
    """Operation and element type of a generic kernel, from its arguments; None if they do not say. A foreach kernel
    first names its iteration scheme (``BinaryOpScalarFunctor``), then the operation."""
    meanings = [_meaning(one, 0) for one in part.arguments or ()
            if not (_literal(one) or dtype_of(one) or _is_layout_or_tuning(one))]
    result = [one for one in meanings if one is not None]
    if not result:
        return None
    through_lists = part.name.startswith("multi_tensor_apply") and len(result) > 1
    return (result[1][0], result[0][1] or result[1][1]) if through_lists else result[0]


def _meaning(name: Name, depth: int) -> tuple[str, str | None] | None:
    """A functor's own meaning, or that of the functor it wraps."""
    part = name.last
    called = next(filter(None, map(dtype_of, name.called or ())), None) if name.called is not None else None
    if _HOLDS_FUNCTOR.fullmatch(part.name) and depth < 8:
        for one in part.arguments or ():
            if _literal(one) or dtype_of(one) or _is_layout_or_tuning(one):
                continue
            inner = _meaning(one, depth + 1)
            if inner is not None:
                return inner[0], inner[1] or first_dtype(Name([part]))
    for one in part.arguments or ():  # compare_with_scalar<std::less<…>>
        if _STD_OPERATION.fullmatch(one.last.name) and not part.name.startswith(("Mean", "Welford")):
            return plain(one.last.name), first_dtype(Name([part])) or called
    text = plain(part.name)
    return (text, first_dtype(Name([part])) or called) if text else None


def extra(part: NamePart) -> str | None:
    """The functor among the arguments of a non-generic kernel, if one is named plainly."""
    for one in part.arguments or ():
        last = one.last
        if _literal(one) or dtype_of(one) or _is_layout_or_tuning(one) or not _WORDY.search(last.name):
            continue
        if one.called is not None or last.parameters is not None or not last.arguments:
            return plain(last.name) or None
    return None


def tile(name: Name) -> str | None:
    """The tile of a GEMM-like template: the first shape among its arguments, ``128x64x32``."""
    for shape in _shapes(name, 0):
        numbers = [_digits(one.last.name) for one in shape]
        if 2 <= len(numbers) <= 3 and all(numbers):
            return "x".join(numbers)
    return None


def head_tile(part: NamePart) -> str | None:
    """Head size and tile of a flash-attention kernel, from its traits: ``128 64x64``."""
    for one in part.arguments or ():
        if one.last.name.lower().endswith("kernel_traits"):
            numbers = [_digits(inner.last.name) for inner in (one.last.arguments or ())[:3]]
            if len(numbers) == 3 and all(numbers):
                return f"{numbers[0]} {numbers[1]}x{numbers[2]}"
    return None


def _shapes(name: Name, depth: int) -> Iterator[list[Name]]:
    for part in name.parts:
        if part.name in ("GemmShape", "MatrixShape") and part.arguments:
            yield part.arguments
        elif depth < 8:
            for one in part.arguments or ():
                yield from _shapes(one, depth + 1)


def plain(name: str) -> str:
    """The name of a functor or kernel without affixes such as Functor or kernel: ``MulFunctor`` is mul."""
    for _ in range(3):
        shorter = _AFFIXES.sub("", name)
        if shorter == name or not shorter:
            break
        name = shorter
    return name.lower() if name.isalpha() and name[:1].isupper() and name[1:].islower() else name


def _literal(name: Name) -> bool:
    text = name.parts[0].name
    return len(name.parts) == 1 and (text in ("true", "false", "null") or text[:1].isdigit() or text[:1] == "-")


def _is_layout_or_tuning(name: Name) -> bool:
    """Whether the name describes data layout or tuning, not the computation."""
    return bool(_STORAGE.search(name.last.name)) or name.last.name in ("void", "decltype", "")


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text) if _INTEGER.match(text) else ""
