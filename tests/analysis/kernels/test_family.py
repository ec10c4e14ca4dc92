"""Families of kernels by what libraries call them."""

import pytest

from warplens.analysis.kernels.family import family


@pytest.mark.parametrize(("name", "wanted"), [
    ("volta_scudnn_128x64_relu_medium_nn_v1", "conv"),
    ("void cudnn::detail::dgrad_engine<float, 512, 6, 5>(int)", "conv"),
    ("void mul_mat_q<(ggml_type)12, 128, false>(char const*, int const*)", "gemm"),
    ("mul_mat_vec_q6_K", "gemm"),
    ("void quantize_mmq_q8_1<(mmq_q8_1_ds_layout)1>(float const*)", "elementwise"),
    ("void cpy_scalar<float, &(cpy_1_scalar<float, float>)>(char const*, char*)", "move"),
    ("void k_get_rows_float<float, float>(float const*)", "move"),
    ("gated_delta_net_cuda", "other"),
])
def test_a_kernel_has_the_family_that_its_library_means(name: str, wanted: str) -> None:
    assert family(name, "kernel") == wanted
