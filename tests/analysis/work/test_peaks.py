"""Peaks of devices: how one is recognised, and the mistakes that other tables make."""

from __future__ import annotations

from typing import Any

import pytest

from warplens.analysis.work.peaks import BadPeaks, DevicePeak, checked, peak_of
from warplens.loaders.trace import Device


def peak(name: str | None, **properties: Any) -> DevicePeak:
    found = peak_of(Device("GPU 0", name, properties), {})
    assert found is not None
    return found


def test_figures_are_dense_and_not_those_with_sparsity() -> None:
    assert peak("NVIDIA H100 80GB HBM3").of_types["bf16"] == 989.4e12  # 1,979 is sparse
    assert peak("NVIDIA A100-SXM4-80GB").of_types["bf16"] == 312e12
    assert peak("NVIDIA L40S").of_types["bf16"] == 366e12  # 362.05 is twice an L40's


def test_a_device_is_a_die_where_programs_see_dies() -> None:
    found = peak("AMD Instinct MI250X")
    assert (found.of_types["bf16"], found.bytes_per_s) == (191.5e12, 1638.4e9)  # 383 and 3,277 are of the package
    assert peak("NVIDIA GB200").of_types["bf16"] == 2500e12  # 5,000 is of the superchip


def test_consumer_cards_accumulate_in_fp32_at_half_the_rate() -> None:
    assert peak("NVIDIA GeForce RTX 4090").of_types["fp16"] == 165.2e12
    assert peak("NVIDIA A10G").of_types["bf16"] == 70e12  # 125 is an A10's


def test_memory_is_that_of_the_data_sheet_or_as_recorded() -> None:
    assert peak("NVIDIA L4").bytes_per_s == 300e9 and peak("Tesla T4").bytes_per_s == 320e9
    recorded = peak("Tesla T4", memoryBandwidth=320_064_000_000)
    assert recorded.bytes_per_s == 320.064e9 and "recorded" in recorded.source


def test_fp32_products_of_amd_have_matrix_units_and_bf16_on_volta_has_none() -> None:
    assert peak("AMD Instinct MI300X").flops_per_s("fp32", True) == 163.4e12
    assert peak("Tesla V100-SXM2-16GB").flops_per_s("bf16", True) == 15.7e12
    assert peak("NVIDIA H100 80GB HBM3").flops_per_s("bf16", False) == 66.9e12  # what is no product


@pytest.mark.parametrize(("name", "model"), [
    ("NVIDIA H200", "H200 SXM"), ("NVIDIA H200 NVL", "H200 NVL"), ("NVIDIA L4", "L4"),
    ("NVIDIA GB200", "GB200 (per GPU)"), ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"), ("NVIDIA A10G", "A10G"),
    ("AMD Instinct MI300X VF", "MI300X"), ("NVIDIA A100-PG509-200", "A100 SXM4 40GB"),
])
def test_the_longest_name_that_stands_as_words_decides(name: str, model: str) -> None:
    assert peak(name).model == model


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 3080 Ti", "NVIDIA GeForce RTX 4090 Laptop GPU", "H100", "", None,
                                  "NVIDIA Next 1", "AMD Instinct MI999"])
def test_a_device_that_nobody_knows_has_no_peak(name: str | None) -> None:
    assert peak_of(Device("GPU 0", name), {}) is None


def test_a_chip_without_a_name_is_told_by_capability_units_and_memory() -> None:
    chip = {"computeMajor": 9, "computeMinor": 4, "numSms": 304}
    assert peak("", **chip, totalGlobalMem=206_141_652_992).model == "MI300X"
    assert peak("AMD Radeon Graphics", **chip, totalGlobalMem=274_877_906_944).model == "MI325X"
    assert peak_of(Device("GPU 0", "", chip), {}) is None  # without memory it may be either


def test_one_name_of_two_cards_is_told_by_memory() -> None:
    assert peak("NVIDIA H20", totalGlobalMem=102e9).bytes_per_s == 4.023e12
    assert peak("NVIDIA H20", totalGlobalMem=150e9).bytes_per_s == 4.8e12
    assert peak_of(Device("GPU 0", "NVIDIA H20"), {}) is None


def test_a_slice_is_scaled_and_a_larger_part_is_another() -> None:
    mig = peak("NVIDIA A100-SXM4-80GB MIG 3g.40gb", numSms=42, totalGlobalMem=40e9)
    assert mig.of_types["bf16"] == pytest.approx(312e12 * 42 / 108)
    assert mig.bytes_per_s == pytest.approx(2.039e12 / 2) and mig.scaled == pytest.approx(42 / 108)
    assert peak_of(Device("GPU 0", "NVIDIA A100-SXM4-80GB", {"numSms": 124}), {}) is None


def test_settings_add_a_device_and_correct_a_figure() -> None:
    own = {"Next 1": {"bf16": 5e15, "bytes_per_s": 1e13}, "NVIDIA L4": {"fp8": 2e14}}
    added = peak_of(Device("GPU 0", "Next 1"), own)
    assert added is not None and (added.of_types, added.bytes_per_s) == ({"bf16": 5e15}, 1e13)
    corrected = peak_of(Device("GPU 0", "NVIDIA L4"), own)
    assert corrected is not None and corrected.of_types["fp8"] == 2e14 and corrected.bytes_per_s == 300e9


@pytest.mark.parametrize("wrong", [[], {"L4": 3}, {"L4": {}}, {"L4": {"fp5": 1.0}}, {"L4": {"bf16": -1}},
                                   {"L4": {"bf16": True}}])
def test_settings_that_cannot_be_are_refused(wrong: Any) -> None:
    with pytest.raises(BadPeaks):
        checked(wrong)
