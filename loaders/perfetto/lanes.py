"""Slices by their tracks and categories: which are of a device, of which thread the others are, what kind each is.

Categories are Kineto's where PyTorch wrote them, and AMD's SDK has its own. A slice without a category that is known is
told by its track and its arguments; on a device's stream one that nothing launched repeats an annotation of the host.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import numpy.typing as npt

from ..kineto import dialect
from ..kineto.columns import CODES, INTS, NULL, Block, Strings
from ..protobuf.tokens import Codes, Ints, map_distinct
from .tracks import Place, Tracks

_INT = {name: row for row, name in enumerate(INTS)}
_CODE = {name: row for row, name in enumerate(CODES)}
_AMD = {
    "kernel_dispatch": "kernel", "memory_copy": "gpu_memcpy", "hip_api": "hip_runtime", "hsa_api": "hip_runtime",
    "rccl_api": "hip_runtime", "hip_runtime_api": "hip_runtime", "marker_api": "user_annotation",
}  # fmt: skip
_COPY, _SET = re.compile(r"mem_?cpy", re.I), re.compile(r"mem_?set", re.I)
_SYNC = re.compile(r"(?:Stream|Context|Event|Device) (?:Wait|Sync)")
_OPERATOR = re.compile(r"[a-z_]\w*::", re.ASCII)
Mask = npt.NDArray[np.bool_]
_MIRROR = "gpu_user_annotation"
_NO_NAME = "event without a name"


class Lanes:
    """Places slices; ``ignored`` counts those that only repeat others."""

    def __init__(self, tracks: Tracks, strings: Strings, ignored: Counter[str]) -> None:
        self._tracks, self._strings, self._ignored = tracks, strings, ignored
        self._places: dict[int, Place] = {}

    def placed(self, block: Block) -> Block:
        """A block of begins (``events.Begins.block``) with categories, devices and threads."""
        ints, codes = block.ints, block.codes
        flow, hint = ints[_INT["pid"]].copy(), ints[_INT["end"]].copy()
        self._place(ints)
        names = codes[_CODE["name"]]
        names[names < 0] = self._strings.code(_NO_NAME)
        on_device = ints[_INT["end"]] != 0
        codes[_CODE["cat"]] = self._known(codes[_CODE["cat"]])
        self._guess(ints, codes, hint, on_device)
        correlation = ints[_INT["correlation"]]
        untied = (correlation == NULL) & (flow != NULL) & self._launches(codes[_CODE["cat"]])
        ints[_INT["correlation"]] = np.where(untied, flow, correlation)
        mirror = codes[_CODE["cat"]] == self._strings.code(_MIRROR)
        self._ignored["mirrors"] += int(mirror.sum())
        return block.take(np.flatnonzero(~mirror)) if mirror.any() else block

    def _place(self, ints: Ints) -> None:
        """Device and stream, or process and thread, by the track; ``end`` is 1 for tracks of devices."""
        distinct, where = np.unique(ints[_INT["tid"]], return_inverse=True)
        for track in distinct.tolist():
            if track not in self._places:
                self._places[track] = self._tracks.place(track)
        by_track = np.array([self._places[track] for track in distinct.tolist()], np.int64).reshape(len(distinct), 5)
        on_device, device, stream, pid, tid = by_track[where].T
        ints[_INT["end"]], ints[_INT["pid"]], ints[_INT["tid"]] = on_device, pid, tid
        for column, placed in (("device", device), ("stream", stream)):
            ints[_INT[column]] = np.where(ints[_INT[column]] == NULL, placed, ints[_INT[column]])

    def _known(self, categories: Codes) -> Ints:
        """Categories with AMD's as Kineto's; -1 for those nobody knows."""

        def category(code: int) -> int:
            text = self._strings.texts[code].lower() if code >= 0 else ""
            text = _AMD.get(text, text)
            return self._strings.code(text) if dialect.is_listed(text) else -1

        return map_distinct(categories, category)

    def _launches(self, categories: Codes) -> Mask:
        """Which are of kinds that an id ties together: device activities and the calls that launch them."""
        tied = *dialect.DEVICE_KINDS, "runtime", "driver"
        texts = self._strings.texts
        return map_distinct(categories, lambda code: dialect.kind_of_category(texts[code]) in tied, bool)

    def _guess(self, ints: Ints, codes: Codes, hint: Ints, on_device: Mask) -> None:
        categories, names = codes[_CODE["cat"]], codes[_CODE["name"]]
        launched = (ints[_INT["correlation"]] != NULL) | (codes[_CODE["grid"]] >= 0) | (ints[_INT["bytes"]] != NULL)
        unknown = np.flatnonzero(categories < 0)
        if not len(unknown):
            return
        keys = np.stack([names[unknown], hint[unknown], on_device[unknown], launched[unknown]], axis=1)
        distinct, where = np.unique(keys, axis=0, return_inverse=True)
        guesses = [self._category(*(int(part) for part in key)) for key in distinct.tolist()]
        categories[unknown] = np.array(guesses, np.int32)[where.ravel()]

    def _category(self, name: int, hint: int, on_device: int, launched: int) -> int:
        text, code = self._strings.texts[name], self._strings.code
        if on_device:
            for pattern, kind in ((_COPY, "gpu_memcpy"), (_SET, "gpu_memset"), (_SYNC, "cuda_sync")):
                if pattern.match(text):
                    return code(kind)
            return code("kernel" if launched else _MIRROR)
        category = dialect.category_without(text)
        if dialect.step_number(text) is not None or category != "user_annotation":
            return code(category)
        if hint >= 0:
            return hint
        return code("cpu_op" if _OPERATOR.match(text) else category)
