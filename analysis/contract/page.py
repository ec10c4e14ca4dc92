"""A page: sections of sentences and small tables of text that stand for a view's rows where people read."""

from __future__ import annotations

from msgspec import Struct


class PageSection(Struct, frozen=True):
    """One section: its title, sentences, and a table of text under ``header``; recorded strings are as recorded.

    Cells of the columns named in ``code`` are names and filters, which an export sets apart from prose.
    """

    title: str
    sentences: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    code: tuple[str, ...] = ()
