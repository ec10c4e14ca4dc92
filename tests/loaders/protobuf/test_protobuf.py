"""The walk over the wire format: what the format's own writer meant comes out, whatever the sizes and whoever walks."""

from __future__ import annotations

import importlib.util
import io
import random
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.loaders.protobuf import stretches
from warplens.loaders.protobuf.layout import FIXED, NUMBER, TEXT
from warplens.loaders.protobuf.stretches import Cut, Stretches, parts
from warplens.loaders.protobuf.tokens import NULL, Shape, reals
from warplens.loaders.protobuf.walk import in_python

SAMPLES = Path(__file__).resolve().parents[3] / "samples"
SHAPE = Shape({
    1: ("item", {1: ("number", NUMBER), 2: ("text", TEXT), 3: ("real", FIXED), 4: ("inner", {5: ("id", NUMBER)})}),
})  # fmt: skip
Item = tuple[int, str, float, list[int]]
items = st.lists(
    st.tuples(
        st.integers(-(1 << 63) + 1, (1 << 63) - 1), st.text(max_size=40), st.floats(allow_nan=False),
        st.lists(st.integers(0, 1 << 62), max_size=4),
    ),
    max_size=20,
)  # fmt: skip


def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("protobuf_writer", SAMPLES / "protobuf_writer.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(wanted: list[Item]) -> bytes:
    out = [
        (1, [(1, number), (2, text), (9, "not asked for"), (3, real), *((4, [(5, one)]) for one in inner)])
        for number, text, real, inner in wanted
    ]
    data: bytes = writer().message(out)
    return data


def read(data: bytes, made: Stretches | None = None) -> list[Item]:
    """The items as they come out stretch by stretch."""
    out: list[Item] = []
    walked = made or Stretches(SHAPE, in_python)
    for stretch in walked.over(io.BytesIO(data).readinto):
        tokens, count, texts = stretch.tokens, stretch.tokens.count("item"), list[str]()

        def code(text: str, texts: list[str] = texts) -> int:
            texts.append(text)
            return len(texts) - 1

        names = tokens.text_column("item.text", count, code).tolist()
        floats = reals(tokens.column("item.real", count, 0)).tolist()
        inner: list[list[int]] = [[] for _ in range(count)]
        ids = tokens.column("item.inner.id", tokens.count("item.inner"))
        for owner, value in zip(tokens.owners("item.inner").tolist(), ids.tolist(), strict=True):
            inner[owner].append(value)
        numbers = tokens.column("item.number", count).tolist()
        for number, name, real, each in zip(numbers, names, floats, inner, strict=True):
            out.append((number, texts[name] if name >= 0 else "", real, each))
    return out


@given(items)
def test_what_was_written_is_read(wanted: list[Item]) -> None:
    assert read(written(wanted)) == wanted


@given(items, st.integers(16, 90))
def test_items_come_out_whole_however_small_the_buffer_is(wanted: list[Item], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "BUFFER", size)
        assert read(written(wanted)) == wanted


def test_an_item_too_large_to_be_one_is_passed_over_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "BUFFER", 64)
    monkeypatch.setattr(stretches, "LARGEST", 200)
    walked = Stretches(SHAPE, in_python)
    found = read(written([(1, "a", 0.5, []), (2, "b" * 1000, 0.5, []), (3, "c", 0.5, [])]), walked)
    assert [number for number, *_ in found] == [1, 3] and walked.broken == 1 and walked.damage is None


def test_a_damaged_item_leaves_nothing_behind_and_the_next_ones_are_read() -> None:
    good = written([(1, "a", 0.5, [4]), (2, "b", 0.5, [5]), (3, "c", 0.5, [6])])
    first = len(written([(1, "a", 0.5, [4])]))
    broken = bytearray(good)
    broken[first + 2] = 0x0C  # a group begins, which nothing has
    walked = Stretches(SHAPE, in_python)
    assert [item[0] for item in read(bytes(broken), walked)] == [1, 3] and walked.broken == 1


def test_where_the_data_ends_too_early_is_said() -> None:
    data = written([(1, "a", 0.5, []), (2, "b", 0.5, [])])
    walked = Stretches(SHAPE, in_python)
    assert len(read(data[:-3], walked)) == 1
    assert walked.cut and walked.damage == len(data) // 2


def test_the_last_of_several_values_counts() -> None:
    module = writer()
    data = module.message([(1, [(1, 5), (1, 7)]), (1, [])])
    (stretch,) = Stretches(SHAPE, in_python).over(io.BytesIO(data).readinto)
    assert stretch.tokens.column("item.number", 2).tolist() == [7, NULL]


def test_packed_numbers_are_numbers() -> None:
    module = writer()
    packed = b"".join(map(module.varint, (3, 300, 70000)))
    (stretch,) = Stretches(SHAPE, in_python).over(io.BytesIO(module.message([(1, [(1, packed)])])).readinto)
    assert stretch.tokens.field("item.number").values.tolist() == [3, 300, 70000]


def test_an_outline_gives_places_and_stops_where_the_message_does(tmp_path: Path) -> None:
    module = writer()
    path = tmp_path / "message"
    path.write_bytes(module.message([(1, "abc"), (2, 700), (3, 0.5)]) + b"\x0a\x50short")
    with path.open("rb") as file:
        found = []
        with pytest.raises(Cut):
            for part in parts(file.fileno(), 0, path.stat().st_size):
                found.append((part.number, part.end - part.begin, part.value))
    assert found == [(1, 3, 0), (2, 0, 700), (3, 8, 0)]


def test_both_walks_find_the_same_in_changed_bytes() -> None:
    pytest.importorskip("numba")
    from fuzz_files import changed
    from walks import Compared

    from warplens.loaders.perfetto.packets import PACKETS
    from warplens.loaders.xla.events import EVENTS

    chance = random.Random(11)
    data = [(SAMPLES / name).read_bytes() for name in ("perfetto.pftrace", "xla_gpu.xplane.pb", "xla_tpu.xplane.pb")]
    compared = Compared(PACKETS, EVENTS)
    for _ in range(300):
        plain, native = compared.both(changed(chance.choice(data), chance), chance)
        assert plain == native


def test_texts_are_told_apart_by_all_of_their_bytes() -> None:
    pytest.importorskip("numba")
    from walks import native

    from warplens.loaders.protobuf.walk import compiled

    chance = random.Random(2)
    texts = ["", *("x" * size for size in range(1, 40)), *("y" * size + chance.choice("ab") for size in range(40))]
    wanted: list[Item] = [(at, text, 0.0, []) for at, text in enumerate(texts)]
    assert read(written(wanted), Stretches(SHAPE, compiled(native()))) == wanted
    assert np.iinfo(np.int64).min == NULL
