"""What the recording itself says is wrong: the profiler's own messages, page faults, error events of the device."""

from __future__ import annotations

from typing import Any

from .rule import Evidence, Said, rule


def _stated(evidence: Evidence, name: str) -> Said | None:
    notices: list[dict[str, Any]] = [one for one in evidence.measured.notices if one["rule"] == name]
    return Said(" ".join(one["sentence"] for one in notices), tuple(notices)) if notices else None


@rule("recorder's message", "problem", "overview")
def message(evidence: Evidence) -> Said | None:
    """The profiler says that its own recording is incomplete."""
    return _stated(evidence, "recorder's message")


@rule("page faults", "problem", "copies")
def page_faults(evidence: Evidence) -> Said | None:
    """Pages of unified memory migrate on demand while kernels wait."""
    return _stated(evidence, "page faults")


@rule("device error", "problem", "metrics")
def device_error(evidence: Evidence) -> Said | None:
    """A device reported an error: an XID, an ECC error, a retired page."""
    return _stated(evidence, "device error")
