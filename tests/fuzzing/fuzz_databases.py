"""SQLite exports of Nsight Systems with bytes and cells changed: every try opens or is refused."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

from fuzz_files import Target, changed

from warplens.loaders.nsys import LOADER

VALUES: tuple[object, ...] = (
    None, -1, 0, 1, 2**31, 2**63 - 1, -(2**63), 1e308, -0.5, float("inf"), "", "not a number", "7", b"\xff\0",
    "x" * 5000, "{", "\0",
)  # fmt: skip
"""Cells no recorder writes."""


def confused(data: bytes, chance: random.Random, tables: str = "%") -> bytes:
    """A database with cells of a wrong type, rows gone, tables and columns renamed; as it was where SQLite objects."""
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(data)
        names = database.execute("select name from sqlite_master where type = 'table' and name like ?", (tables,))
        known = [row[0] for row in names]
        for _ in range(chance.choice((1, 2, 5))):
            table = chance.choice(known)
            column = chance.choice([row[1] for row in database.execute(f'pragma table_info("{table}")')])
            how = chance.randrange(8)
            if how < 5:
                change = f'update or ignore "{table}" set "{column}" = ? where abs(random()) % 3 = 0'
                database.execute(change, (chance.choice(VALUES),))
            elif how == 5:
                database.execute(f'delete from "{table}" where abs(random()) % 2 = 0')
            elif how == 6:
                database.execute(f'alter table "{table}" rename column "{column}" to "{column}x"')
            else:
                database.execute(f'create view if not exists "v{table}" as select * from "{table}"')
        database.commit()
        return database.serialize()
    except sqlite3.Error:
        return data
    finally:
        database.close()


def excerpts(export: bytes, count: int) -> list[bytes]:
    """The database with the texts and a few other tables each: a load takes a time a table."""
    chance, made = random.Random(5), []
    for _ in range(count):
        database = sqlite3.connect(":memory:")
        database.deserialize(export)
        tables = [row[0] for row in database.execute("select name from sqlite_master where type = 'table'")]
        kept = {"StringIds", *chance.sample(tables, 3), *chance.sample([one for one in tables if "_KIND_" in one], 1)}
        for table in tables:
            if table not in kept:
                database.execute(f'drop table "{table}"')
        database.commit()
        database.execute("vacuum")
        made.append(database.serialize())
        database.close()
    return made


def nsys_sqlite(samples: Path) -> Target:
    """The export of ``nsys export --type sqlite``, mostly a few tables of it."""
    whole = (samples / "nsys.sqlite").read_bytes()
    exports = excerpts(whole, 40)

    def place(folder: Path, chance: random.Random) -> Path:
        path, export = folder / "run.sqlite", whole if chance.random() < 0.03 else chance.choice(exports)
        made = confused(export, chance) if chance.random() < 0.5 else changed(export, chance)
        path.write_bytes(made)
        return path

    return Target(LOADER, place)
