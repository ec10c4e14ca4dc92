"""Whatever was recorded becomes one line of harmless text that fits."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from warplens.analysis.core.distinct_names import told_apart
from warplens.analysis.core.text import clean, cut, display, fit_name


@given(st.text(st.characters(), max_size=80), st.integers(1, 60))
def test_display_text_fits_and_holds_no_control(raw: str, width: int) -> None:
    for shown in (display(raw, width), fit_name(raw, width)):
        assert cell_len(shown) <= width
        assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("a\nb\tc", "a␊b␉c"),
        ("\u202eevil", "⟨U+202E⟩evil"),
        ("\x9b2J", "⟨U+009B⟩2J"),
        ("[red]markup[/red]", "[red]markup[/red]"),
        ("\ud800", "\ufffd"),
    ],
)
def test_what_a_terminal_would_act_on_is_made_visible(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_a_megabyte_is_bounded() -> None:
    assert len(clean("x" * 1_000_000)) < 5_000


def test_cut_keeps_both_ends() -> None:
    assert cut("abcdefghij", 5) == "ab…ij"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (34, "vectoriz…_kernel<…CUDAFunctor_add>"),
        (60, "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>"),
        (20, "vectorized…se_kernel"),
    ],
)
def test_a_kernel_keeps_what_tells_it_from_others(width: int, shown: str) -> None:
    raw = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
        "(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
    )
    assert fit_name(raw, width) == shown


MUL = "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >"
COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}"
    "::operator()() const::{lambda(float)#1}"
)
NSYS_COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]::operator ()() const::"
    "[lambda() (instance 7)]::operator ()() const::[lambda(float) (instance 1)]"
)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (
            f"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<{MUL} >"
            f"(at::TensorIteratorBase&, {MUL} const&)::{{lambda(int)#1}}>(int, {MUL})",
            "elementwise_kernel<128, 2, BinaryFunctor<MulFunctor<float>>>",
        ),
        (
            f"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<{COPY}>"
            f"(at::TensorIteratorBase&, {COPY} const&)::{{lambda(int)#1}}>(int, {COPY})",
            "elementwise_kernel<128, 4, direct_copy_kernel_cuda(float)>",
        ),
        (
            "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<"
            f"{NSYS_COPY}>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)",
            "elementwise_kernel<128, 4, direct_copy_kernel_cuda(float)>",
        ),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
            "at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, "
            "unsigned int, float, 4> >(at::native::ReduceOp<float, float>)",
            "reduce_kernel<512, 1, sum_functor<float, float, float>>",
        ),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
            "TensorListMetadata<2>, at::native::(anonymous namespace)::UnaryOpFunctor<float, 2, 1, 1>, at::native::Sqrt"
            "<float> >(at::native::(anonymous namespace)::TensorListMetadata<2>, at::native::Sqrt<float>)",
            "multi_tens…ly_kernel<…UnaryOpFunctor<float, 2, 1>, Sqrt<float>>",
        ),
    ],
)
def test_a_generic_kernel_is_named_by_its_functor(raw: str, shown: str) -> None:
    assert fit_name(raw, 63) == shown


@pytest.mark.parametrize("nested", ["<" * 3000, "a<" * 50 + ">" * 50, "{lambda(" * 99, ">", "a<b>::c<", "((<" * 99])
def test_a_generic_kernel_with_odd_arguments_still_gives_a_line(nested: str) -> None:
    assert 0 < cell_len(fit_name(f"void at::native::reduce_kernel<{nested}", 30)) <= 30


GEMMS = tuple(
    f"ampere_bf16_s16816gemm_bf16_{tile}_{how}ldg8_f2f_stages_64x{stages}_tn"
    for tile in ("64x64", "128x64") for how in ("", "sliced1x2_") for stages in (5, 6)
)


@pytest.mark.parametrize("width", [20, 24, 26, 34])
def test_names_that_differ_in_their_middle_are_told_apart(width: int) -> None:
    shown = {name: told_apart(GEMMS, width).get(name, fit_name(name, width)) for name in GEMMS}
    assert len(set(shown.values())) == len(GEMMS), shown
    assert all(len(text) <= width for text in shown.values())


def test_a_name_that_looks_like_no_other_is_left_alone() -> None:
    assert told_apart(["gemm_long_name_with_more_of_it", "reduce_long_name_with_more_of_it"], 16) == {}
    assert told_apart(["gemm", "gemm"], 16) == {}


@given(st.lists(st.text(st.sampled_from("ab<_,"), min_size=20, max_size=60), max_size=6), st.integers(1, 30))
def test_told_apart_always_fits(names: list[str], width: int) -> None:
    assert all(len(text) <= width for text in told_apart(names, width).values())
