"""Which kernels run on tensor cores, by what their name says they compute with; what no name says stays unknown."""

from __future__ import annotations

import polars as pl
import pytest

from warplens.analysis.kernels.tensor_cores import LONGEST, by_tensor_cores, on_tensor_cores, tensor_core_types
from warplens.loaders import schema
from warplens.loaders.trace import Device

OFF = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x",
    "ampere_sgemm_128x64_tn", "void ffma_gemm", "void sgemm_largek_lds64<true>(float*)",
    "void implicit_convolve_sgemm<float, float, 128>(int)", "void cudnn::cnn::wgrad_alg0_engine<float, 128>(int)",
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "void gemmk1_kernel<int, float, 256>(x)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)", "triton_poi_fused_add_0",
    "void fbgemm_gpu::permute_2D_data_kernel<false>(int)", "void gemv2T_kernel_val<int, int, float>(float)",
    "cask_cudnn::computeWgradSplitKOffsetsKernel(int)", "winogradWgradData4x4<float, float>(x)",
    "wrapped_convert", "void foo<4>(ggml_mm_args_device)",
)
ON = (
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x64x64_stage3_warpsize2x2x1_tensor16x8x16_execute_kernel__5x",
    "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64_tensor16x8x8", "volta_h884gemm_256x64_ldg8_tn",
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", "nvjet_tst_192x192_64x3_2x1_v_bz_coopA_TNN",
    "Cijk_Ailk_Bjlk_HHS_BH_MT32x32x64_MI16x16x16x1_SN_1LDSB0", "igemm_bwd_gtcx3_nhwc_fp16_bx0",
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_tensor16x8x8",
)
UNKNOWN = (
    "triton_tem_fused_addmm_3", "matmul_kernel", "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "attn_fwd.kd",
    "Kernel", "kernel_unified_attention_2d", "fused_moe_kernel",
    "sm80_xmma_gemm_kernel", "MatMul104", "gemm_fusion_dot_12",
    None, "void (anonymous namespace)::batched_mm<4>(int)",
)


@pytest.mark.parametrize(("names", "answer"), [(OFF, False), (ON, True), (UNKNOWN, None)])
def test_a_name_says_yes_or_no_or_leaves_it_open(names: tuple[str | None, ...], answer: bool | None) -> None:
    used = on_tensor_cores(pl.Series(names, dtype=pl.String))
    assert dict(zip(names, used, strict=True)) == dict.fromkeys(names, answer)


def test_each_kernel_is_on_tensor_cores_or_not_or_unknown() -> None:
    used, unsure = by_tensor_cores(pl.Series("name", [*OFF, *ON, *UNKNOWN], dtype=schema.NAME))
    assert used.tolist() == [False] * len(OFF) + [True] * len(ON) + [False] * len(UNKNOWN)
    assert unsure.tolist() == [False] * (len(OFF) + len(ON)) + [True] * len(UNKNOWN)


def of(capability: int, name: str | None = None) -> Device:
    return Device("GPU 0", name, {"computeMajor": capability, "warpSize": 32})


ALL, HALF = ("TF32", "BF16", "FP16"), ("FP16",)


@pytest.mark.parametrize(("devices", "types"), [
    ([of(9, "NVIDIA H100 80GB HBM3")], ALL), ([of(7, "Tesla V100-SXM2-16GB")], HALF), ([of(6)], ()),
    ([Device("GPU 0", "NVIDIA GeForce RTX 2080 Ti")], HALF), ([Device("GPU 0", "NVIDIA GeForce RTX 3080")], ALL),
    ([Device("GPU 0", "NVIDIA A100-SXM4-80GB")], ALL), ([Device("GPU 0", "Tesla P100-PCIE-16GB")], ()),
    ([of(7, "NVIDIA GeForce GTX 1660")], ()), ([Device("GPU 0", None, {"compute_capability": "12.0"})], ALL),
    ([of(8), of(7)], HALF), ([of(9), Device("GPU 1")], None), ([Device("GPU 0")], None), ([], None),
    ([Device("GPU 0", None, {"computeMajor": 9, "warpSize": 64})], None), ([Device("NPU 0", "Ascend910B")], None),
    ([Device("GPU 0", "AMD Instinct MI300X", {"chip": "gfx942"})], None),
])
def test_types_are_those_of_the_least_of_the_devices_and_none_are_guessed(
    devices: list[Device], types: tuple[str, ...] | None
) -> None:
    assert tensor_core_types(devices, ["ncclKernel"]) == types


@pytest.mark.parametrize(("kernel", "types"), [
    ("volta_sgemm_128x64_nn", HALF), ("ampere_sgemm_128x64_nn", ALL), ("cutlass_80_simt_sgemm_64x64_8x5_nn", ALL),
    ("maxwell_sgemm_128x64_nn", None),
])
def test_kernels_say_the_least_that_an_unnamed_device_can_do(kernel: str, types: tuple[str, ...] | None) -> None:
    assert tensor_core_types([Device("GPU 0")], [kernel, "add"]) == types
    assert tensor_core_types([of(6)], [kernel]) == ()


def test_of_a_name_of_megabytes_only_the_beginning_is_looked_at() -> None:
    names = pl.Series(["hmma" + "n" * LONGEST, "n" * LONGEST + "hmma"])
    assert on_tensor_cores(names).to_list() == [True, False]
    assert tensor_core_types((), ["n" * LONGEST + "_sm90_"]) is None
