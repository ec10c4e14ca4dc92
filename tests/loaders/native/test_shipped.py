"""Code that came with the package is used for what it was made of, and only where nobody else can have written it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warplens.loaders.kineto.scan.program import SCANNER
from warplens.loaders.native import code_cache, emit, levels, ship, shipped
from warplens.loaders.native.code_cache import Program
from warplens.loaders.native.functions import Image, Native, Unusable

SOURCE = """
from numba import types
from warplens.loaders.native.jit import compiled

@compiled
def twice(number):
    return 2 * number

SIGNATURES = {"twice": (types.int64,)}
"""
LEVEL = next(iter(levels.levels_here()), None)
pytestmark = pytest.mark.skipif(LEVEL is None, reason="no level of processors is known here")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A program that came with the package, in a folder of its own."""
    source = tmp_path / "shipped_for_a_test.py"
    source.write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Program("twice", source.stem, ("twice",), (str(source),))
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "built")
    monkeypatch.setattr(ship, "programs", lambda: [made])
    assert LEVEL is not None
    ship.ship(shipped.FOLDER, LEVEL)
    for known in (code_cache._shipped, code_cache._functions):
        known.cache_clear()
    return made


def test_it_is_there_without_anything_being_compiled(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("compiles"))
    assert program.ready()
    program.prepare()
    native = program.functions()
    assert native is not None and native.call("twice", 21) == 42


def test_every_program_is_shipped() -> None:
    names = {program.name for program in ship.programs()}
    assert SCANNER in ship.programs()
    root = Path(code_cache.__file__).parents[1]
    said = [path for path in root.rglob("program.py") if "Program(" in path.read_text()]
    assert len(said) == len(ship.PROGRAMS) == len(names)


def test_other_sources_or_compilers_do_not_use_it(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shipped.read("twice", program.depends()) is not None
    before = program.depends()
    source = Path(program.sources[0])
    source.write_text(SOURCE + "# changed")
    assert program.depends() != before and shipped.read("twice", program.depends()) is None
    source.write_text(SOURCE)
    monkeypatch.setattr(code_cache, "_version", lambda package: b"another")
    assert shipped.read("twice", program.depends()) is None


@pytest.mark.parametrize("harm", ["file", "folder", "link", "altered", "owner"])
def test_it_is_not_believed_where_somebody_else_can_have_written_it(
    program: Program, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = shipped.FOLDER.iterdir()
    if harm == "file":
        file.chmod(0o664)
    elif harm == "folder":
        shipped.FOLDER.chmod(0o775)
    elif harm == "link":
        file.rename(shipped.FOLDER / "elsewhere")
        os.symlink(shipped.FOLDER / "elsewhere", file)
    elif harm == "altered":
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    else:
        uid = file.stat().st_uid
        if uid == 0:
            os.chown(file, 12345, -1)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    assert shipped.read("twice", program.depends()) is None and not program.ready()


def test_code_for_a_level_runs_only_where_the_processor_has_it(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = shipped.read("twice", program.depends())
    assert code is not None
    monkeypatch.setattr(shipped, "levels_here", lambda: ())
    assert shipped.read("twice", program.depends()) is None
    monkeypatch.setattr("warplens.loaders.native.functions.levels_here", lambda: ())
    with pytest.raises(Unusable):
        Native(code, program.names)


def test_code_of_a_level_is_for_all_of_it_and_answers_the_same(program: Program) -> None:
    functions = emit.compile_all(program.module, program.names)
    for level in levels.levels_here():
        made = emit.image(functions, level)
        assert isinstance(made, Image) and made.processor == level
        assert Native(made, program.names).call("twice", -4) == -8


def test_a_processor_has_the_levels_whose_abilities_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def here(flags: str) -> tuple[str, ...]:
        levels.levels_here.cache_clear()
        monkeypatch.setattr(levels, "first_processor", lambda: (b"model name : x", b"flags : " + flags.encode()))
        return levels.levels_here()

    second = "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"
    try:
        assert here("fpu sse2") == ()
        assert here(second) == ("x86-64-v2",)
        assert here(second + " avx avx2 bmi1 bmi2 f16c fma movbe abm") == ("x86-64-v3", "x86-64-v2")
        assert here(second + " avx avx2") == ("x86-64-v2",)
    finally:
        levels.levels_here.cache_clear()
