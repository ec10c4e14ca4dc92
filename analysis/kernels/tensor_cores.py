"""Which kernels run on tensor cores, which may, and which operators could: by their names.

Where no counter was recorded the name is all there is. The fragments and operators follow torch_tb_profiler's lists
(which follow NVIDIA's PyProf), so that shares agree with its reports, plus the names of kernels made since. A name that
says neither that a kernel uses them nor that it does not leaves that unknown, and so the shares it would decide.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

Mask = npt.NDArray[np.bool_]

KERNEL = (
    "|".join((
        # Volta to Ampere: shape of one matrix instruction, and the families of cuDNN and cuBLAS that use it
        "[hs]884", "[hsc]1688", "hmma", "i8816", "16816", "dgrad_1x1_stride_2x2", "first_layer_wgrad_kernel",
        "conv1x1", "conv2d_c1_k1", "direct_group",
        # since: CUTLASS's tensor operations, Hopper, Blackwell, attention; matrix instructions of AMD's Tensile
        "tensorop", "16832", "[Gg]mma", "Umma|_umma", "nvjet", "utcmma", "tcgen05",
        r"\bbmm_(Mx|E\dm\d|Bfloat)", "flash_(fwd|bwd)", "fmha", r"_MI\d+x\d+x\d+", "mfma", r"igemm_\w+_gtcx",
    ))
)
"""Found anywhere in the name of a kernel that uses tensor cores."""

FAMILY = "xmma_((fprop|[dw]grad)_)?((warp_specialized_)?implicit_|sparse_)?gemm|xmma_sparse_conv"
"""Families whose kernels run on tensor cores or on the FP32 units: only their operands or instruction tell."""
OPERANDS = r"tensor\d+x\d+|f16|tf32|[ise]\d+m\d+|[isu]8|hmma|imma|884|1688|16816|16832"
"""Instructions and operand types that tensor cores have..."""
FP32 = (
    r"f32f32_f32f32_f32|(^|[^a-z])ffma($|[^a-z])|(^|[^a-z0-9])sgemm|scudnn|simt_s(gemm|fprop|dgrad|wgrad)|"
    r"(gemm|convolve|fprop|[dw]grad)\w*<float|gemm\w*_kernel<(int, )?float"
)
"""...and those of the FP32 units, as in ``sm80_xmma_gemm_f32f32_f32f32_f32_..._ffma_...``."""
MATRIX = (
    r"(?i)(^.?|[^b]|[^f]b)gemm($|[^v])|matmul|mul_mat|(^|[^a-z])b?mm($|[^a-z])|conv($|e?$|er?$|[^e]|e[^r]|er[^st])|"
    r"fprop|(^|[^a-z])[dw]grad|attn|attention|fmha|Cijk|triton_tem|fused_moe|RNN_|(^|::)kernel2?(<|$)|device_kernel"
)
"""What may multiply matrices. Of such a kernel, as of Triton's, the name need not say on what units."""
LONGEST = 20_000
"""Characters of a name that are looked at: templates have some thousand, a name of megabytes is nobody's."""
UNSURE = 0.01
"""A share of the time that kernels may or may not have spent on tensor cores, above which the whole is unknown."""

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
    """Whether the pattern is in the ``name`` of a frame, as far as a name is looked at.

    A frame has a million names where each launch has its own: polars looks through them in a fifth of the time that
    Python's ``re`` takes, with patterns that look neither ahead nor behind.
    """
    return pl.col("name").str.head(LONGEST).str.contains(pattern)


def on_tensor_cores(names: pl.Series) -> pl.Series:
    """For each name (String) whether such a kernel uses tensor cores; null where it may and the name does not say."""
    function = pl.col("name").str.head(LONGEST).str.replace_all("(anonymous namespace)::", "", literal=True)
    may = function.str.extract(r"^([^(]*)").str.contains(MATRIX)
    return names.to_frame("name").select(
        pl.when(named(FP32)).then(False).when(named(KERNEL) | (named(FAMILY) & named(OPERANDS))).then(True)
        .when(~may).then(False).alias("used")
    )["used"]


def by_tensor_cores(names: pl.Series) -> tuple[Mask, Mask]:
    """For each kernel whether it uses tensor cores, and whether it may, by a series of names (``NAME``)."""
    distinct = names.unique()
    used = on_tensor_cores(distinct.cast(pl.String))

    def among(some: pl.Series) -> Mask:
        return names.is_in(distinct.filter(some).implode(), nulls_equal=True).to_numpy()

    return among(used.fill_null(False)), among(used.is_null())


def share_on_tensor_cores(used: pl.Expr, unsure: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """A share 0-1 of the ``whole`` time; null where more than ``UNSURE`` of it may or may not be on tensor cores."""
    return pl.when(whole <= 0).then(0.0).when(unsure <= UNSURE * whole).then(used / whole)
