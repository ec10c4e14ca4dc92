"""Names are shown by what a kernel does, on what type, in what tile; no two alike; hostile ones cost little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from warplens.analysis.core.names import cpp
from warplens.analysis.core.names.cpp import demangled, unfolded
from warplens.analysis.core.names.display_names import display_names
from warplens.analysis.core.names.short_name import fit_name, short_name

MUL = "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >"
COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}"
    "::operator()() const::{lambda(float)#1}"
)
NSYS_COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]::operator ()() const::"
    "[lambda() (instance 7)]::operator ()() const::[lambda(float) (instance 1)]"
)
TENSILE = (
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1_AFC1_GRVWA{}_GRVWB8_ISA942_WG32_8_1"
)
GELU = (
    "_ZN2at6native29vectorized_elementwise_kernelILi8EZZZNS0_18GeluCUDAKernelImplERNS_18TensorIteratorBaseENS0_8GeluType"
    "EENKUlvE_clEvENKUlvE2_clEvEUlN3c108BFloat16EE_St5arrayIPcLm2EEEEviT0_T1_"
)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3> >"
         "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)", "add<float> elementwise"),
        ("void ck_tile::kentry<ck_tile::gfx950_t, 2, ck_tile::FmhaFwdKernel<ck_tile::Problem<std::bfloat16_t> > >"
         "(ck_tile::FmhaFwdKernel<ck_tile::Problem<std::bfloat16_t> >::Kargs) [clone .kd]", "FmhaFwd<bf16>"),
        ("transformer_engine::populate_rng_state_kernel(long*, long) [clone .kd]", "populate_rng_state"),
        ("gemm_fusion_dot_6.kd", "gemm_fusion_dot_6"),
        ("aclnnAddmm_MatMulCommon_MatMulV2", "MatMulV2 in Addmm"),
        (f"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<{MUL} >"
         f"(at::TensorIteratorBase&, {MUL} const&)::{{lambda(int)#1}}>(int, {MUL})", "mul<float> elementwise"),
        (f"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<{COPY}>"
         f"(at::TensorIteratorBase&, {COPY} const&)::{{lambda(int)#1}}>(int, {COPY})",
         "direct_copy<float> elementwise"),
        ("void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<"
         f"{NSYS_COPY}>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)",
         "direct_copy<float> elementwise"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
         "at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, "
         "unsigned int, float, 4> >(at::native::ReduceOp<float, float>)", "sum<float> reduce"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
         "TensorListMetadata<2>, at::native::(anonymous namespace)::UnaryOpFunctor<float, 2, 1, 1>, at::native::Sqrt"
         "<float> >(at::native::(anonymous namespace)::TensorListMetadata<2>, at::native::Sqrt<float>)",
         "sqrt<float> foreach"),
        (GELU, "gelu<bf16> elementwise"),
        ("void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, float, int, int)", "rms_norm<bf16>"),
        ("void vllm::act_and_mul_kernel<c10::Half, &(c10::Half vllm::silu_kernel<c10::Half>(c10::Half const&)), true>"
         "(c10::Half*, c10::Half const*, int)", "act_and_mul<half, silu>"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, float, false, 7>"
         "(cublasGemvParams<float>)", "gemvx<float>"),
        ("enable_if<!T7, void>::type kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, 0, 1, "
         "cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<const __nv_bfloat16>>>(T13)", "gemv<bf16>"),
        ("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::half_t, "
         "Flash_kernel_traits<128, 64, 128, 4, cutlass::half_t> >, false, true>(flash::Flash_fwd_params)",
         "flash_fwd_splitkv<half, 128 64x128>"),
        ("ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn", "gemm bf16 64x64 tn"),
        ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>"
         "(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8::Params)", "gemm bf16 16x16 tn"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_execute_kernel__5x",
         "gemm float 64x64x8 tn ffma"),
        (TENSILE.format(4), "gemm bf16 256x192x64 TN bias"),
        ("nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN", "nvjet tst 144x128 TNN bias"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         "nccl AllReduce Sum bf16 RING LL"),
        ("$array_methods.py:782 _operator_rmul", "array_methods.py:782 _operator_rmul"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned)"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD"),
        ("torch/nn/modules/module.py(1501): _call_impl", "module.py:1501 _call_impl"),
        ("triton_poi_fused_add_mul_3", "triton_poi_fused_add_mul_3"),
        ("aten::add_", "aten::add_"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
         "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        ("ProfilerStep#3", "ProfilerStep#3"),
    ],
)
def test_a_name_says_what_is_computed(raw: str, shown: str) -> None:
    assert short_name(raw) == shown


def test_a_mangled_name_that_was_cut_off_is_named_by_what_is_left_of_it() -> None:
    raw = "_ZN13cutlass_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22ImplicitGemmMulti"
    assert demangled(raw) is None
    assert short_name(raw) == "ImplicitGemmConvolution"


@pytest.mark.parametrize("width", [20, 24, 36])
def test_two_names_of_one_form_are_told_apart_by_the_field_in_which_they_differ(width: int) -> None:
    shown = display_names([TENSILE.format(4), TENSILE.format(8)], width)
    assert len(set(shown.values())) == 2
    assert shown[TENSILE.format(4)].endswith("GRVWA4") and shown[TENSILE.format(8)].endswith("GRVWA8")
    assert all(cell_len(text) <= width for text in shown.values())


def test_a_name_alone_keeps_its_form() -> None:
    assert display_names([TENSILE.format(4)], 40) == {TENSILE.format(4): "gemm bf16 256x192x64 TN bias"}


GEMMS = tuple(
    f"ampere_bf16_s16816gemm_bf16_{tile}_{how}ldg8_f2f_stages_64x{stages}_tn"
    for tile in ("64x64", "128x64") for how in ("", "sliced1x2_") for stages in (5, 6)
)


@pytest.mark.parametrize("width", [20, 24, 26, 34])
def test_a_table_of_like_gemms_shows_no_two_alike(width: int) -> None:
    shown = display_names(GEMMS, width)
    assert len(set(shown.values())) == len(GEMMS), shown
    assert all(cell_len(text) <= width for text in shown.values())


@given(st.lists(st.text(st.sampled_from("ab<_,:>(…界"), min_size=1, max_size=60), max_size=8, unique=True),
       st.integers(12, 40))
def test_whatever_was_recorded_fits_and_is_told_apart(names: list[str], width: int) -> None:
    shown = display_names(names, width)
    assert all(cell_len(text) <= width for text in shown.values())
    assert len(set(shown.values())) == len(shown) == len(names)


@pytest.mark.parametrize(
    "raw",
    [
        "<" * 1_000_000, "void f" + "<a" * 500_000, "(" * 1_000_000, "void a<" + "::" * 500_000, "_Z" + "1aI" * 300_000,
        "Cijk_A" + "_B" * 400_000, "nccl" + "Kernel" * 200_000, "/" * 1_000_000, "igemm_fwd_" + "_" * 900_000 + "_bt",
        "void at::native::reduce_kernel<" + "{lambda(" * 90_000, "a" * 1_000_000 + ")", "at::" + "\x1b[2J" * 100_000,
    ],
    ids=lambda raw: raw[:12],
)
def test_a_megabyte_of_brackets_is_one_line_that_fits(raw: str) -> None:
    assert len(short_name(raw)) <= 8_192
    assert 0 < cell_len(fit_name(raw, 30)) <= 30


@pytest.mark.parametrize("nested", ["a<" * 50 + ">" * 50, "{lambda(" * 99, ">", "a<b>::c<", "((<" * 99])
def test_a_generic_kernel_with_odd_arguments_still_gives_a_line(nested: str) -> None:
    assert 0 < cell_len(fit_name(f"void at::native::reduce_kernel<{nested}", 30)) <= 30


def doubling(times: int) -> str:
    """A mangled name that unfolds to twice its length with each substitution."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return "_Z1f1AI1B1CE" + "".join(f"S_IS{digits[3 + i - 1]}_S{digits[3 + i - 1]}_E" for i in range(times))


def test_a_name_that_would_unfold_to_gigabytes_is_not_demangled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert demangled(doubling(3)) is not None
    assert unfolded(doubling(28)) > cpp._UNFOLDED
    assert demangled(doubling(28)) is None
    assert short_name(doubling(28))


@pytest.mark.parametrize("times", range(1, 9))
def test_the_bound_of_unfolding_is_one(times: int) -> None:
    text = demangled(doubling(times))
    assert text is not None and len(text) <= unfolded(doubling(times))


def test_many_like_names_are_told_apart_in_one_pass() -> None:
    names = [f"void k<{i}, {'x' * 30}, float>(int)" for i in range(3_000)]
    shown = display_names(names, 24)
    assert len(set(shown.values())) == len(names)
