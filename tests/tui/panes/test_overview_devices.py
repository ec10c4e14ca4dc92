"""The gauges of devices that have no room are counted."""

from __future__ import annotations

from warplens.tui.panes.overview_picture import _devices


def test_devices_without_gauges_are_counted() -> None:
    devices = [{"device": f"GPU {at}", "utilisation": 0.5} for at in range(8)]
    lines = [line.plain for line in _devices({"devices": devices}, False, 60)]
    assert [line.strip() for line in lines if "GPU " in line and "█" not in line][:2] == ["GPU 0", "GPU 1"]
    assert lines[-1].strip() == "6 more devices: keys 8, 9"
    assert not any("more" in line.plain for line in _devices({"devices": devices[:2]}, False, 60))
