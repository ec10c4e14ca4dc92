"""Tracks and the slices on them: the device or thread of each track, and the category of each slice.

A track belongs to a device if it, or a parent, is named like 'stream 7' or 'GPU 0'; otherwise to the host thread that
it or a parent gives. Descriptors may come after the events, so tracks are resolved at the end. Categories are Kineto's
in traces of PyTorch; AMD's SDK has its own. A slice without a known category is classified by its track, name and
arguments; on a device stream, a slice that nothing launched is a repeat of a host annotation.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ..kineto import dialect
from ..kineto.columns import CODES, INTS, NULL, Block, Strings
from ..protobuf.tokens import Codes, Ints, Tokens, map_distinct
from .annotations import SOURCE

_GPU = re.compile(r"\b(GPU|NPU|XPU|HPU|TPU|MTIA)[ :#_-]{0,3}(\d{1,4})\b", re.I)
_DEVICE = re.compile(r"\bdevice[ :#_-]{0,3}(\d{1,3})\b", re.I)
_STREAM = re.compile(r"\b(?:stream|queue)[ :#_\[-]{0,3}(\d{1,18})\b", re.I)
_AGENT = re.compile(r"\bAGENT \[(\d{1,4})\].*\((GPU|CPU)\)", re.I)
"""rocprofv3's tracks: COMPUTE AGENT [2] STREAM [1] (GPU), COPY to AGENT [0] STREAM [0] (CPU)."""
_DEEPEST = 64
_UNITS = {1: "ns", 2: "", 3: "B"}


class Track(Struct):
    """The contents of a track's descriptors; None for what they lack."""

    name: str | None = None
    parent: int | None = None
    pid: int | None = None
    tid: int | None = None
    process: str | None = None
    thread: str | None = None
    counter: bool = False
    unit: str = ""
    multiplier: int = 1
    incremental: bool = False


class Place(NamedTuple):
    """Where the events of a track ran: device number and stream, or process and thread; NULL for what is unknown."""

    on_device: bool
    device: int
    stream: int
    pid: int
    tid: int


class Tracks:
    """All tracks, by uuid. ``word`` is the name of devices if it is not GPU ('NPU'), known after ``place``."""

    def __init__(self) -> None:
        self.by_uuid: dict[int, Track] = {}
        self.word: str | None = None
        self._places: dict[tuple[object, ...], Place] = {}

    def learn(self, tokens: Tokens) -> None:
        """Store the track descriptors among the packets."""
        count = tokens.count("packet.track")
        if not count:
            return
        uuids = tokens.column("packet.track.uuid", count, 0).tolist()
        for uuid in uuids:
            self.by_uuid.setdefault(uuid, Track())
        tracks = [self.by_uuid[uuid] for uuid in uuids]
        parent = tokens.field("packet.track.parent")
        for owner, value in zip(parent.owners.tolist(), parent.values.tolist(), strict=True):
            tracks[owner].parent = value
        for field in ("static_name", "name"):
            for owner, text in self._texts(tokens, f"packet.track.{field}"):
                tracks[owner].name = text
        for kind in ("process", "thread"):
            inside = tokens.owners(f"packet.track.{kind}").tolist()
            for name in ("pid", "tid"):
                if kind == "thread" or name == "pid":
                    numbers = tokens.field(f"packet.track.{kind}.{name}")
                    for owner, value in zip(numbers.owners.tolist(), numbers.values.tolist(), strict=True):
                        setattr(tracks[inside[owner]], name, value)
            for owner, text in self._texts(tokens, f"packet.track.{kind}.name"):
                setattr(tracks[inside[owner]], kind, text)
        self._counters(tokens, tracks)

    def _counters(self, tokens: Tokens, tracks: list[Track]) -> None:
        inside = tokens.owners("packet.track.counter").tolist()
        columns = {name: tokens.column(f"packet.track.counter.{name}", len(inside), 0).tolist()
                   for name in ("unit", "multiplier", "incremental")}  # fmt: skip
        for at, owner in enumerate(inside):
            track = tracks[owner]
            track.counter, track.unit = True, _UNITS.get(columns["unit"][at], "")
            track.multiplier, track.incremental = columns["multiplier"][at] or 1, bool(columns["incremental"][at])
        for at, text in self._texts(tokens, "packet.track.counter.unit_name"):
            tracks[inside[at]].unit = text

    def _texts(self, tokens: Tokens, name: str) -> list[tuple[int, str]]:
        field = tokens.field(name)
        _, first, which = np.unique(field.hashes, return_index=True, return_inverse=True)
        texts = [tokens.text(value, min(size, 4096))
                 for value, size in zip(field.values[first].tolist(), field.sizes[first].tolist(), strict=True)]
        return [(owner, texts[at]) for owner, at in zip(field.owners.tolist(), which.tolist(), strict=True)]

    def around(self, uuid: int) -> list[Track]:
        """The track and its parents, innermost first."""
        chain, visited = list[Track](), set[int]()
        while uuid in self.by_uuid and uuid not in visited and len(chain) < _DEEPEST:
            visited.add(uuid)
            chain.append(self.by_uuid[uuid])
            parent = chain[-1].parent
            if parent is None:
                break
            uuid = parent
        return chain

    def place(self, uuid: int) -> Place:
        """The place of a track's events; tracks with equal descriptors share the first one's."""
        own = self.by_uuid.get(uuid)
        if own is None or not (own.name or own.thread or own.process):
            return self._place(uuid)
        key = own.name, own.parent, own.pid, own.tid, own.process, own.thread
        if key not in self._places:  # PyTorch's first writer gave each slice its own track
            self._places[key] = self._place(uuid)
        return self._places[key]

    def _place(self, uuid: int) -> Place:
        chain = self.around(uuid)
        texts = [text for track in chain for text in (track.name, track.thread, track.process) if text]
        gpu = next((match for text in texts if (match := _GPU.search(text))), None)
        stream = next((match for text in texts if (match := _STREAM.search(text))), None)
        pid = next((track.pid for track in chain if track.pid is not None), None)
        tid = next((track.tid for track in chain if track.tid is not None), None)
        agent = next((match for text in texts if (match := _AGENT.search(text))), None)
        if agent is not None:
            number = int(agent[1]) if agent[2].upper() == "GPU" else NULL
            return Place(True, number, int(stream[1]) if stream else NULL, NULL, NULL)
        if gpu or stream:
            device = next((match for text in texts if (match := _DEVICE.search(text))), None)
            if gpu and gpu[1].upper() != "GPU":
                self.word = gpu[1].upper()
            number = int(gpu[2]) if gpu else int(device[1]) if device else NULL
            number = pid if number == NULL and pid is not None and 0 <= pid < 1024 else number
            return Place(True, number, int(stream[1]) if stream else NULL if tid is None else tid, NULL, NULL)
        if tid is None:
            name = next((text for text in texts), "")
            tid = dialect.number_in(name) if name else uuid
        return Place(False, NULL, NULL, NULL if pid is None else pid, tid)


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
    """Resolves the track and category of slices; ``ignored`` counts slices that only repeat others."""

    def __init__(self, tracks: Tracks, strings: Strings, ignored: Counter[str]) -> None:
        self._tracks, self._strings, self._ignored = tracks, strings, ignored
        self._places: dict[int, Place] = {}

    def placed(self, block: Block) -> Block:
        """A block of begins (``events.Begins.block``) with categories, devices and threads, without repeats."""
        ints, codes = block.ints, block.codes
        flow, hint = ints[_INT["pid"]].copy(), ints[_INT["end"]].copy()
        self._place(ints)
        names = codes[_CODE["name"]]
        names[names < 0] = self._strings.code(_NO_NAME)
        on_device = ints[_INT["end"]] != 0
        codes[_CODE["cat"]] = self._listed(codes[_CODE["cat"]])
        self._guess(ints, codes, hint, on_device)
        correlation = ints[_INT["correlation"]]
        untied = (correlation == NULL) & (flow != NULL) & self._launches(codes[_CODE["cat"]])
        ints[_INT["correlation"]] = np.where(untied, flow, correlation)
        mirror = codes[_CODE["cat"]] == self._strings.code(_MIRROR)
        self._ignored["repeats of other events"] += int(mirror.sum())
        return block.take(np.flatnonzero(~mirror)) if mirror.any() else block

    def _place(self, ints: Ints) -> None:
        """Fill in device and stream, or process and thread, by track; ``end`` becomes 1 for device tracks, else 0."""
        distinct, where = np.unique(ints[_INT["tid"]], return_inverse=True)
        for track in distinct.tolist():
            if track not in self._places:
                self._places[track] = self._tracks.place(track)
        by_track = np.array([self._places[track] for track in distinct.tolist()], np.int64).reshape(len(distinct), 5)
        on_device, device, stream, pid, tid = by_track[where].T
        ints[_INT["end"]], ints[_INT["pid"]], ints[_INT["tid"]] = on_device, pid, tid
        own = ints[_INT["device"]]
        source = np.where(own >= SOURCE, own - SOURCE, NULL)  # a copy to the host is of the agent it comes from
        device = np.where((device == NULL) & on_device.astype(bool), source, device)
        ints[_INT["device"]] = np.where((own == NULL) | (own >= SOURCE), device, own)
        ints[_INT["stream"]] = np.where(ints[_INT["stream"]] == NULL, stream, ints[_INT["stream"]])

    def _listed(self, categories: Codes) -> Ints:
        """The categories with AMD's replaced by Kineto's; -1 for unknown ones."""

        def category(code: int) -> int:
            text = self._strings.texts[code].lower() if code >= 0 else ""
            text = _AMD.get(text, text)
            return self._strings.code(text) if dialect.is_listed(text) else -1

        return map_distinct(categories, category)

    def _launches(self, categories: Codes) -> Mask:
        """Whether a correlation id applies to each category: device activities and the calls that launch them."""
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
