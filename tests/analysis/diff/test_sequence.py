"""The alignment of two launch sequences, and which functions are the same under other names."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.diff.matching import Function, Profile, matches, stem
from warplens.analysis.diff.sequence import aligned, gaps

LETTERS = st.text("abc", max_size=14)


def longest(a: str, b: str) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(LETTERS, LETTERS)
def test_the_alignment_is_a_longest_common_subsequence(a: str, b: str) -> None:
    pairs = aligned(a, b)
    assert all(a[i] == b[j] for i, j in pairs) and len(pairs) == longest(a, b)
    assert all(x < y and u < v for (x, u), (y, v) in pairwise(pairs))


@given(LETTERS, LETTERS)
def test_gaps_are_what_the_alignment_leaves(a: str, b: str) -> None:
    pairs = aligned(a, b)
    between = gaps(len(a), len(b), pairs)
    assert sorted([i for i, _ in pairs] + [i for left, _ in between for i in left]) == list(range(len(a)))
    assert sorted([j for _, j in pairs] + [j for _, right in between for j in right]) == list(range(len(b)))


def test_a_stem_is_the_name_without_what_a_build_numbers() -> None:
    for one, other in (
        ("triton_red_fused_add_15", "triton_red_fused_add_20"), ("main_F1L204_2", "main_F1L210_2"),
        ("compute_pass_37_gpu", "compute_pass_41_gpu"),
        ("__omp_offloading_10302_4ab_main_l88", "__omp_offloading_10302_77c_main_l93"),
        ("f(int)::{lambda()#2}::operator()", "f(int)::{lambda()#3}::operator()"),
    ):
        assert stem(one) == stem(other)
    assert stem("gemm_64x64") != stem("gemm_128x64") and stem("kernel_1") != stem("kernel_2")


def profiles(**kernels: tuple[float, float, int]) -> dict[Function, Profile]:
    return {(name, "GPU 0", "kernel"): Profile(n, us, None, place) for name, (n, us, place) in kernels.items()}


def test_functions_of_one_stem_are_assigned_by_order_not_by_number() -> None:
    a = profiles(triton_poi_1=(2, 40, 0), triton_poi_2=(2, 12, 1))
    b = profiles(triton_poi_2=(2, 40, 0), triton_poi_3=(2, 12, 1))
    names = matches(a, b, (None, None), {}).names
    assert names == {("triton_poi_2", "GPU 0"): "triton_poi_1", ("triton_poi_3", "GPU 0"): "triton_poi_2"}


def test_a_function_of_b_without_a_partner_never_takes_the_name_of_another() -> None:
    a = profiles(triton_poi_1=(12, 40, 0))
    b = profiles(triton_poi_1=(1, 40, 0), triton_poi_2=(12, 40, 1))
    assert matches(a, b, (None, None), {}).names == {
        ("triton_poi_2", "GPU 0"): "triton_poi_1", ("triton_poi_1", "GPU 0"): "triton_poi_1 (in B)"}
