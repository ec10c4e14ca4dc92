"""Kernels that run or may run on tensor cores, operators that could, and types that a device's tensor cores support.

Without counters only names are available. Patterns and operators follow torch_tb_profiler's lists (NVIDIA's PyProf),
plus newer kernels. A name that does not tell leaves its kernel unknown, and the shares that depend on it. Types follow
from compute capability, product name or the kernels that ran (CUDA C++ Programming Guide, "Compute Capabilities").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from ...loaders.trace import Device

Mask = npt.NDArray[np.bool_]

KERNEL = (
    "|".join((
        # Volta to Ampere: shape of a matrix instruction, and the cuDNN and cuBLAS families that use it
        "[hs]884", "[hsc]1688", "hmma", "i8816", "16816", "dgrad_1x1_stride_2x2", "first_layer_wgrad_kernel",
        "conv1x1", "conv2d_c1_k1", "direct_group",
        # newer: CUTLASS's tensor operations, Hopper, Blackwell, attention; matrix instructions of AMD's Tensile
        "tensorop", "16832", "[Gg]mma", "Umma|_umma", "nvjet", "utcmma", "tcgen05",
        r"\bbmm_(Mx|E\dm\d|Bfloat)", "flash_(fwd|bwd)", "fmha", r"_MI\d+x\d+x\d+", "mfma", r"igemm_\w+_gtcx",
    ))
)
"""Matches the name of a kernel that uses tensor cores."""

FAMILY = "xmma_((fprop|[dw]grad)_)?((warp_specialized_)?implicit_|sparse_)?gemm|xmma_sparse_conv"
"""Families with kernels for tensor cores and for FP32 units: only operand types or instruction tell which."""
OPERANDS = r"tensor\d+x\d+|f16|tf32|[ise]\d+m\d+|[isu]8|hmma|imma|884|1688|16816|16832"
"""Instructions and operand types of tensor cores."""
FP32 = (
    r"f32f32_f32f32_f32|(^|[^a-z])ffma($|[^a-z])|(^|[^a-z0-9])sgemm|scudnn|simt_s(gemm|fprop|dgrad|wgrad)|"
    r"(gemm|convolve|fprop|[dw]grad)\w*<float|gemm\w*_kernel<(int, )?float"
)
"""Instructions and operand types of FP32 units, as in ``sm80_xmma_gemm_f32f32_f32f32_f32_..._ffma_...``."""
MATRIX = (
    r"(?i)(^.?|[^b]|[^f]b)gemm($|[^v])|matmul|mul_mat|(^|[^a-z])b?mm($|[^a-z])|conv($|e?$|er?$|[^e]|e[^r]|er[^st])|"
    r"fprop|(^|[^a-z])[dw]grad|attn|attention|fmha|Cijk|triton_tem|fused_moe|RNN_|(^|::)kernel2?(<|$)|device_kernel"
)
"""Kernels that may multiply matrices; their names, like Triton's, need not say on which units."""
LONGEST = 20_000
"""Characters of a name that are searched: templates have a few thousand, a name of megabytes is not real."""
UNSURE = 0.01
"""Share of the time whose use of tensor cores is uncertain, above which the result is unknown."""

OPERATORS = frozenset(
    [f"aten::{name}" for name in (
        "_convolution _convolution_nogroup conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d "
        "conv_transpose3d convolution cudnn_convolution cudnn_convolution_transpose prelu addmm addmv addr matmul mm "
        "mv linear addbmm baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell "
        "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell addmm_ cudnn_convolution_backward "
        "cudnn_convolution_backward_weight cudnn_convolution_backward_input cudnn_convolution_transpose_backward "
        "cudnn_convolution_transpose_backward_weight cudnn_convolution_transpose_backward_input"
    ).split()]
    + ("CudnnConvolutionBackward CudnnConvolutionTransposeBackward BmmBackward0 MmBackward AddmvBackward MvBackward "
       "AddmmBackward AddbmmBackward").split()
)
"""Operators that may use tensor cores."""


def named(pattern: str) -> pl.Expr:
    """Whether ``name`` contains the pattern, within its first ``LONGEST`` characters. A frame can have a million names,
    one per launch: polars searches them in a fifth of the time of Python's ``re``, but without lookahead and
    lookbehind."""
    return pl.col("name").str.head(LONGEST).str.contains(pattern)


def on_tensor_cores(names: pl.Series) -> pl.Series:
    """Whether a kernel of each name (String) uses tensor cores; null if it may and the name does not say."""
    function = pl.col("name").str.head(LONGEST).str.replace_all("(anonymous namespace)::", "", literal=True)
    may = function.str.extract(r"^([^(]*)").str.contains(MATRIX)
    return names.to_frame("name").select(
        pl.when(named(FP32)).then(False).when(named(KERNEL) | (named(FAMILY) & named(OPERANDS))).then(True)
        .when(~may).then(False).alias("used")
    )["used"]


def by_tensor_cores(names: pl.Series) -> tuple[Mask, Mask]:
    """Two masks over names (``NAME``): kernels that use tensor cores, and kernels that may."""
    distinct = names.unique()
    used = on_tensor_cores(distinct.cast(pl.String))

    def among(some: pl.Series) -> Mask:
        return names.is_in(distinct.filter(some).implode(), nulls_equal=True).to_numpy()

    return among(used.fill_null(False)), among(used.is_null())


def share_on_tensor_cores(used: pl.Expr, unsure: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """A share 0-1 of the ``whole`` time; null if tensor-core use is uncertain for more than ``UNSURE``."""
    return pl.when(whole <= 0).then(0.0).when(unsure <= UNSURE * whole).then(used / whole)


TYPES = ((8, ("TF32", "BF16", "FP16")), (7, ("FP16",)), (0, ()))
"""From that major compute capability on: the types that an FP32 product could use instead."""
_PRODUCTS = tuple((major, re.compile(rf"\b({names})\b")) for major, names in (
    (0, r"GTX|MX\d+|T\d{3,4}|[KMP]\d{1,4}|TITAN Xp?"),  # Turing's smallest chips (GTX 16, T1000) have no tensor cores
    (7, r"G?V100\w*|TITAN V|T4\w?|RTX 20\d\d|TITAN RTX|Quadro RTX \d+"),
    (8, r"[ABH]\d{1,3}\w?|G[BH]\d{3}|L4|L40S?|RTX [3-9]0\d\d|RTX A\d+|RTX PRO \d+|RTX \d+ Ada"),
))
_KERNELS = (
    (8, re.compile(r"(^|_)(ampere|hopper|blackwell|sm[89]\d|sm1[0-2]\d)_|cutlass_[89]0_", re.IGNORECASE)),
    (7, re.compile(r"(^|_)(volta|turing|sm7\d)_", re.IGNORECASE)),
)
"""Kernels that need at least this capability: cuBLAS runs ``volta_`` kernels on later devices as well."""
_OTHER_MAKERS = re.compile(r"\b(AMD|Instinct|Radeon|MI\d+|gfx\w+|Ascend|Intel|MLU)")
_MAJOR = ("computeMajor", "major", "compute_cap_major", "compute_capability")
_AMD_WAVE = 64


def tensor_core_types(devices: Sequence[Device], kernels: Iterable[str]) -> tuple[str, ...] | None:
    """The types that the tensor cores of all these devices support; () if one has none, None if unknown. ``kernels``
    are the names of kernels that ran: they give a lower bound for devices without a description."""
    least = max((major for name in kernels for major, built in _KERNELS if built.search(name[:LONGEST])), default=None)
    majors = [_major(one, least) for one in devices] or [least]
    if None in majors:
        return None
    lowest = min(major for major in majors if major is not None)
    return next(types for major, types in TYPES if lowest >= major)


def is_other_maker(device: Device) -> bool:
    """Whether the recording shows that the device is not from NVIDIA."""
    chips = " ".join(str(device.properties.get(key, "")) for key in ("chip", "gpu_arch", "device_vendor"))
    return (
        device.id.startswith(("NPU", "MLU", "TPU")) or device.properties.get("warpSize") == _AMD_WAVE
        or bool(_OTHER_MAKERS.search(f"{device.name or ''} {chips}"))
    )


def _major(device: Device, least: int | None) -> int | None:
    """The major compute capability, 0 without tensor cores; ``least`` if the device is not described."""
    if is_other_maker(device):
        return None
    product = next((major for major, named in _PRODUCTS if named.search(device.name or "")), None)
    recorded = [str(device.properties[key]).split(".")[0] for key in _MAJOR if key in device.properties]
    first = next((int(text) for text in recorded if text.isdigit()), None)
    if product == 0 or first is None:
        return least if product is None else product
    return first
