"""What details and pages are made of: titled sections of values, sentences, small tables and distributions."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

MOST = 12  # Lines of a section: groups, cycles, kernels.


class Event(Struct, frozen=True):
    """Where an event stands: which run (0 or 1), the rank whose file, its byte offset there and its name."""

    side: int
    rank: int | None
    offset: int
    name: str


class Section(Struct, frozen=True):
    """A titled part, all display text: rows of label and value, or of as many texts as ``columns`` has headers.
    ``shape`` is a distribution in ns (``edges_ns`` and counts ``a``, ``b``, as ``distribution.histogram`` makes it),
    drawn above the rows. ``event`` is one whose arguments, which only the file has, belong here."""

    title: str
    rows: tuple[tuple[str, ...], ...] = ()
    columns: tuple[str, ...] = ()
    shape: dict[str, Any] | None = None
    event: Event | None = None


class Detail(Struct, frozen=True):
    """The sections of a row, most wanted first."""

    sections: tuple[Section, ...]


class PageSection(Struct, frozen=True):
    """One section: its title, sentences, and a table of text under ``header``; recorded strings are as recorded. Cells
    of the columns named in ``code`` are names and filters, which an export sets apart from prose."""

    title: str
    sentences: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    code: tuple[str, ...] = ()
