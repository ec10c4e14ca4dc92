"""Which kernels run on tensor cores and which operators could, told by their names.

Where no counter was recorded the name is all there is. The fragments and operators follow torch_tb_profiler's lists
(which follow NVIDIA's PyProf), so that shares agree with its reports, plus the names of kernels made since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

KERNEL = re.compile(
    "|".join((
        # Volta to Ampere: shape of one matrix instruction, and the families of cuDNN and cuBLAS that use it
        "[hs]884", "[hsc]1688", "hmma", "i8816", "16816", "dgrad_1x1_stride_2x2", "first_layer_wgrad_kernel",
        "conv1x1", "conv2d_c1_k1", "direct_group",
        # since: CUTLASS's tensor operations, Hopper, Blackwell, attention; matrix instructions of AMD's Tensile
        "tensorop", "16832", "[Gg]mma", "Umma|_umma", "nvjet", "utcmma", "tcgen05",
        r"\bbmm_(Mx|E\dm\d|Bfloat)", "flash_(fwd|bwd)", "fmha", r"_MI\d+x\d+x\d+_",
    ))
)
"""Found anywhere in the name of a kernel that uses tensor cores."""

FAMILY = re.compile("xmma_((warp_specialized_)?implicit_|sparse_)?gemm|xmma_sparse_conv")
"""Families whose kernels run on tensor cores or on the FP32 units: only their operands or instruction tell."""
OPERANDS = re.compile(r"tensor\d+x\d+|f16|tf32|[ise]\d+m\d+|[isu]8|hmma|imma|884|1688|16816|16832")
"""Instructions and operand types that tensor cores have..."""
FP32 = re.compile(r"f32f32_f32f32_f32|(?<![a-z])ffma(?![a-z])")
"""...and those of the FP32 units, as in ``sm80_xmma_gemm_f32f32_f32f32_f32_..._ffma_...``."""

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


def kernels_on_tensor_cores(names: Iterable[str | None]) -> list[str]:
    """Those of the names that belong to kernels that use tensor cores."""
    return [name for name in names if name is not None and _on_tensor_cores(name)]


def _on_tensor_cores(name: str) -> bool:
    if FP32.search(name):
        return False
    return bool(KERNEL.search(name) or (FAMILY.search(name) and OPERANDS.search(name)))
