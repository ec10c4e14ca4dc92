"""The kernels of the overview: one row for each, over all devices, with those where it took most and least."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from warplens.analysis.contract.options import Options
from warplens.analysis.query.ask import ask
from warplens.analysis.query.report import summary
from warplens.analysis.views import view
from warplens.analysis.views.kernels import VIEW, in_overview
from warplens.loaders.trace import Device

from ..runs import kernel, run_of


def job(*launches, ranks=(), devices=()):
    run = run_of(kernels=[kernel(at, 100 * at, dur, name, device=device, rank=rank)
                          for at, (name, dur, device, rank) in enumerate(launches)])
    return replace(run, info=replace(run.info, ranks=ranks, devices=devices))


JOB = job(("gemm", 30, "GPU 0", 0), ("gemm", 50, "GPU 0", 1), ("gemm", 20, "GPU 0", 1), ("norm", 5, "GPU 0", 1),
          ranks=(0, 1))


def listed(run, *columns):
    return ask(in_overview((run,)), (run,), Options()).frame.select(columns).rows()


def test_a_kernel_of_several_ranks_is_one_row_that_names_the_extreme_ones():
    assert listed(JOB, "name", "device", "rank", "count", "total_ns", "p50_ns", "devices", "most_ns", "most_on",
                  "least_ns", "least_on") == [
        ("gemm", None, None, 3, 100, 30, 2, 70, "rank 1", 30, "rank 0"),
        ("norm", None, None, 1, 5, 5, 1, 5, "rank 1", 5, "rank 1"),
    ]
    assert len(ask(VIEW, (JOB,), Options())) == 3  # the view itself has a row for each rank


def test_the_summary_lists_them_so_and_says_where_each_rank_is():
    kernels = summary((JOB,), Options())[-1]
    assert kernels.view == "kernels" and len(kernels) == 2
    assert "Each kernel is summed over 2 devices; the kernels view has a row for each." in kernels.notes


def test_a_device_is_named_without_a_rank_and_with_it_where_a_rank_has_several():
    alone = job(("gemm", 30, "GPU 0", None), ("gemm", 50, "GPU 1", None))
    assert listed(alone, "most_on", "least_on") == [("GPU 1", "GPU 0")]
    several = job(("gemm", 30, "GPU 0", 0), ("gemm", 50, "GPU 1", 0), ("gemm", 40, "GPU 2", 1), ranks=(0, 1))
    assert listed(several, "most_on", "least_on") == [("rank 0 GPU 1", "rank 0 GPU 0")]


def test_a_kernel_without_durations_has_no_extremes():
    assert listed(job(("gemm", None, "GPU 0", 0), ("gemm", None, "GPU 0", 1), ranks=(0, 1)),
                  "count", "total_ns", "devices", "most_on", "least_on") == [(2, None, 2, None, None)]


def test_the_kernels_of_one_device_are_those_of_the_view():
    run = job(("gemm", 30, "GPU 0", None), devices=(Device("GPU 0"),))
    assert in_overview((run,)) is VIEW and in_overview((run, JOB)) is not VIEW
    unnamed = job(("gemm", 30, "GPU 0", None))  # nothing says how many devices there are
    assert listed(unnamed, "device", "total_ns", "most_on") == [("GPU 0", 30, None)]


def test_a_job_is_compared_with_a_run_of_one_device_by_name():
    one = job(("gemm", 40, "GPU 3", None), devices=(Device("GPU 3"),))
    rows = ask(in_overview((JOB, one)), (JOB, one), Options()).frame
    assert sorted(rows.select("name", "total_ns_a", "total_ns_b").rows()) == [("gemm", 100, 40), ("norm", 5, 0)]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 10**9), st.sampled_from(["GPU 0", "GPU 1"]),
                          st.sampled_from([0, 1, 2])), min_size=1, max_size=40))
def test_sums_and_extremes_equal_a_plain_loop(launches):
    where = defaultdict(lambda: defaultdict(int))
    for name, dur, device, rank in launches:
        where[name][f"rank {rank} {device}"] += dur
    places = {place for each in where.values() for place in each}
    rows = listed(job(*launches, ranks=(0, 1, 2)), "name", "total_ns", "devices", "most_ns", "least_ns")
    if len(places) > 1:
        assert sorted(rows) == sorted(
            (name, sum(each.values()), len(each), max(each.values()), min(each.values()))
            for name, each in where.items()
        )
    else:
        assert sorted(rows) == sorted((name, sum(each.values()), None, None, None) for name, each in where.items())


def test_a_table_that_names_no_device_is_compared_with_all_devices_of_the_other_together():
    several = job(("gemm", 30, "GPU 0", 0), ("gemm", 50, "GPU 1", 1), ranks=(0, 1))
    table = job(("gemm", 70, None, None))
    for pair, times in (((table, several), (70, 80)), ((several, table), (80, 70))):
        (row,) = ask(VIEW, pair, Options()).frame.to_dicts()
        assert (row["total_ns_a"], row["total_ns_b"]) == times
        (row,) = ask(view("diff"), pair, Options()).frame.to_dicts()
        assert (row["a_ms"] * 1e6, row["b_ms"] * 1e6, row["device"]) == (*times, None)


def test_the_overview_has_one_top_row_for_a_kernel_of_several_ranks():
    top = ask(view("overview"), (JOB,), Options()).facts["top_kernels"]
    assert [(row["name"], row["device"], row["count"], row["total_ns"]) for row in top] == [
        ("gemm", "GPU 0", 3, 100), ("norm", "GPU 0", 1, 5)]
    two = job(("gemm", 30, "GPU 0", None), ("gemm", 50, "GPU 1", None))
    (one,) = ask(view("overview"), (two,)).facts["top_kernels"]
    assert (one["device"], one["share"]) == (None, 1.0)
