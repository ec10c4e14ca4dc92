"""Which kernels run on tensor cores, told by what their name says they compute with."""

from __future__ import annotations

from warplens.analysis.kernels.tensor_cores import kernels_on_tensor_cores

FP32 = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x",
    "sm80_xmma_gemm_kernel", "ampere_sgemm_128x64_tn", "void ffma_gemm",
)
TENSOR = (
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x64x64_stage3_warpsize2x2x1_tensor16x8x16_execute_kernel__5x",
    "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64_tensor16x8x8", "volta_h884gemm_256x64_ldg8_tn",
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", "nvjet_tst_192x192_64x3_2x1_v_bz_coopA_TNN",
)


def test_kernels_of_the_fp32_units_are_not_on_tensor_cores_whatever_family_they_are_of() -> None:
    assert kernels_on_tensor_cores(FP32) == []


def test_kernels_with_tensor_operands_are_on_tensor_cores() -> None:
    assert kernels_on_tensor_cores(TENSOR) == list(TENSOR)
