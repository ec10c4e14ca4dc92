"""Writes ``memory_snapshot.pickle`` beside itself, or into a folder: ``python samples/make_memory.py [folder]``.

A synthetic snapshot of PyTorch's caching allocator, with the documented containers and keys: three steps of a toy
training loop whose activations grow, a leak of one buffer per step, and a final out-of-memory for which no free block
is large enough. The output is deterministic; a test compares it.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

FIRST_US, MIB, BASE = 1_772_460_450_250_000, 1 << 20, 0x7F2A_0000_0000
STEPS, LAYERS = 3, 4
Rows = list[dict[str, Any]]


def _frames(*places: tuple[str, int, str]) -> Rows:
    return [{"filename": file, "line": line, "name": name} for file, line, name in places]


LOOP = ("/home/me/train.py", 88, "main")
FORWARD = _frames(
    ("??", 0, "torch::autograd::THPVariable_linear"), ("/opt/torch/nn/modules/linear.py", 125, "forward"),
    ("/home/me/model.py", 42, "forward"), LOOP,
)
LEAK = _frames(("/home/me/train.py", 97, "log_loss"), LOOP)
WEIGHTS = _frames(("/opt/torch/nn/modules/module.py", 1174, "to"), ("/home/me/train.py", 61, "build"), LOOP)


class Allocator:
    """Hands out addresses in segments and records its events."""

    def __init__(self) -> None:
        self.events: Rows = []
        self.segments: Rows = []
        self.now, self._next = FIRST_US, BASE

    def _record(self, action: str, address: int, size: int, frames: Rows) -> None:
        self.now += 137
        self.events.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": self.now,
                            "compile_context": "N/A", "user_metadata": "", "frames": frames})  # fmt: skip

    def segment(self, size: int, frames: Rows) -> int:
        """Allocate a new segment of that size; returns its address."""
        address = self._next
        self._next += size + 64 * MIB
        self.segments.append({
            "device": 0, "address": address, "total_size": size, "allocated_size": 0, "active_size": 0,
            "requested_size": 0, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
            "is_expandable": False, "frames": frames, "blocks": [],
        })
        self._record("segment_alloc", address, size, frames)
        return address

    def alloc(self, address: int, size: int, frames: Rows) -> None:
        """Allocate a block at that address."""
        self._record("alloc", address, size, frames)

    def free(self, address: int, size: int) -> None:
        """Free the block."""
        self._record("free_requested", address, size, [])
        self._record("free_completed", address, size, [])


def snapshot() -> dict[str, Any]:
    """The whole snapshot."""
    made = Allocator()
    weights, work = made.segment(512 * MIB, WEIGHTS), made.segment(1024 * MIB, FORWARD)
    blocks: list[tuple[int, int, int, str, Rows]] = [(weights, 400 * MIB, 400 * MIB - 100, "active_allocated", WEIGHTS)]
    made.alloc(weights, 400 * MIB - 100, WEIGHTS)
    for step in range(STEPS):
        size = (40 + 10 * step) * MIB
        for layer in range(LAYERS):
            made.alloc(work + layer * 128 * MIB, size, FORWARD)
        leaked = work + 512 * MIB + step * 64 * MIB
        made.alloc(leaked, 30 * MIB, LEAK)
        blocks.append((leaked, 32 * MIB, 30 * MIB, "active_allocated", LEAK))
        for layer in range(LAYERS):
            made.free(work + layer * 128 * MIB, size)
    made.events.append({"action": "oom", "size": 900 * MIB, "stream": 0, "device_free": 96 * MIB,
                        "time_us": made.now + 50, "frames": FORWARD})  # fmt: skip
    for segment in made.segments:
        _fill(segment, [block for block in blocks if segment["address"] <= block[0] < segment["address"]
                        + segment["total_size"]])
    return {
        "segments": made.segments, "device_traces": [made.events, []], "external_annotations": [],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "secret-setting:never-shown", "max_split_size": -1},
    }


def _fill(segment: dict[str, Any], blocks: list[tuple[int, int, int, str, Rows]]) -> None:
    """Fill a segment with its blocks and the free blocks between them."""
    place, end = segment["address"], segment["address"] + segment["total_size"]
    rows = segment["blocks"]
    for address, size, asked, state, frames in [*sorted(blocks, key=lambda one: one[0]), (end, 0, 0, "", [])]:
        if address > place:
            rows.append({"address": place, "size": address - place, "requested_size": 0, "state": "inactive",
                         "frames": []})  # fmt: skip
        if size:
            rows.append({"address": address, "size": size, "requested_size": asked, "state": state, "frames": frames})
            segment["allocated_size"] += size
            segment["active_size"] += size
            segment["requested_size"] += asked
        place = address + size


def main(folder: Path) -> None:
    """Write the snapshot."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory_snapshot.pickle").write_bytes(pickle.dumps(snapshot(), protocol=4))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
