"""Tracks: what they are called and what they are of, by their descriptors and those of the tracks they are in.

A track is of a device where it, or one it is in, is called 'stream 7' or 'GPU 0'; it is of a host thread where one of
them says its thread. Descriptors may come after the events, so tracks are asked at the end.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from ..kineto import dialect
from ..kineto.columns import NULL
from ..protobuf.tokens import Tokens

_GPU = re.compile(r"\b(GPU|NPU|XPU|HPU|TPU|MTIA)[ :#_-]{0,3}(\d{1,4})\b", re.I)
_DEVICE = re.compile(r"\bdevice[ :#_-]{0,3}(\d{1,3})\b", re.I)
_STREAM = re.compile(r"\b(?:stream|queue)[ :#_-]{0,3}(\d{1,18})\b", re.I)
_DEEPEST = 64
_UNITS = {1: "ns", 2: "", 3: "B"}


class Track(Struct):
    """What descriptors said of a track; None where nothing."""

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
    """Where events of a track are: of a device (its number, the stream) or not; process and thread, NULL if unknown."""

    on_device: bool
    device: int
    stream: int
    pid: int
    tid: int


class Tracks:
    """All tracks, by uuid. ``word`` is what devices are called."""

    def __init__(self) -> None:
        self.by_uuid: dict[int, Track] = {}
        self.word: str | None = None
        self._places: dict[tuple[object, ...], Place] = {}

    def learn(self, tokens: Tokens) -> None:
        """Take in the descriptors among the packets."""
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
        """The track and those it is in, innermost first."""
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
        """What events of a track are of: that of one with the same descriptor, where there was one."""
        own = self.by_uuid.get(uuid)
        if own is None or not (own.name or own.thread or own.process):
            return self._place(uuid)
        key = own.name, own.parent, own.pid, own.tid, own.process, own.thread
        if key not in self._places:  # PyTorch's first writer gave each slice a track of its own
            self._places[key] = self._place(uuid)
        return self._places[key]

    def _place(self, uuid: int) -> Place:
        chain = self.around(uuid)
        texts = [text for track in chain for text in (track.name, track.thread, track.process) if text]
        gpu = next((match for text in texts if (match := _GPU.search(text))), None)
        stream = next((match for text in texts if (match := _STREAM.search(text))), None)
        pid = next((track.pid for track in chain if track.pid is not None), None)
        tid = next((track.tid for track in chain if track.tid is not None), None)
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
