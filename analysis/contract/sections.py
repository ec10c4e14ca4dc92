"""Parts of details and pages: titled sections of values, sentences, small tables and distributions."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

MOST = 12  # Most lines in a section: groups, cycles, kernels.


class Event(Struct, frozen=True):
    """Location of an event: run (0 or 1), rank of its file, byte offset there and name."""

    side: int
    rank: int | None
    offset: int
    name: str


class Section(Struct, frozen=True):
    """A titled section of display text: rows of label and value, or of one text per header in ``columns``. ``shape`` is
    a distribution (``edges_ns`` and counts ``a``, ``b``, as in ``distribution.histogram``) drawn above the rows.
    ``event`` locates an event whose arguments belong here; only the file has them."""

    title: str
    rows: tuple[tuple[str, ...], ...] = ()
    columns: tuple[str, ...] = ()
    shape: dict[str, Any] | None = None
    event: Event | None = None


class Detail(Struct, frozen=True):
    """The sections of a row, most important first."""

    sections: tuple[Section, ...]


class PageSection(Struct, frozen=True):
    """A section of a page: title, sentences, and a text table under ``header``; recorded strings are unmodified.
    Columns named in ``code`` hold names and filters, which exports set apart from prose."""

    title: str
    sentences: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    code: tuple[str, ...] = ()
