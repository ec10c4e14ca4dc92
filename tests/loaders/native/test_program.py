"""Machine code is used for the sources it was compiled from and the processors it is for, wherever it was compiled."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kept_code
import llvmlite.binding as llvm
import numpy as np
import pytest

from warplens.loaders import private
from warplens.loaders.ingest import doctor
from warplens.loaders.native import build, emit, processor
from warplens.loaders.native import program as programs
from warplens.loaders.native.functions import Code, Image, Native, Objects, Unusable
from warplens.loaders.native.link import NotLinked, link
from warplens.loaders.native.program import HOST, Program, compiled_here, locate, write

SOURCE = """
import numpy as np
from warplens.loaders.native.jit import compiled, inlined, item, word_at

PRIMES = np.array([2, 3, 5, 7, 11])

@inlined
def prime(place):
    return item(PRIMES, place)

@compiled
def weighed(numbers, by):
    total = 0
    for row in range(numbers.shape[0]):
        for column in range(numbers.shape[1]):
            numbers[row, column] *= by
            total += numbers[row, column] * prime(column)
    return total

@compiled
def word(text, at):
    return np.int64(word_at(text, at))

"""
FUNCTIONS = ("weighed", "int64[:, ::1], int64"), ("word", "uint8[::1], int64")
ROOT = Path(__file__).resolve().parents[3]
LEVEL = next(iter(processor.levels_here()), None)
needs_level = pytest.mark.skipif(LEVEL is None, reason="no level of x86-64 is known here")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Two functions in a module of their own, nowhere compiled."""
    source = tmp_path / "program_for_a_test.py"
    source.write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, source.stem, raising=False)
    monkeypatch.setattr(programs, "SHIPPED", tmp_path / "built")
    locate.cache_clear()
    return Program("test", source.stem, FUNCTIONS, (str(source),))


@pytest.fixture
def shipped(program: Program, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The same, compiled into the package."""
    monkeypatch.setattr(build, "programs", lambda: [program])
    programs.SHIPPED.mkdir()
    build.build(programs.SHIPPED, LEVEL or HOST)
    return program


def answers(native: Native) -> tuple[int, list[list[int]], int]:
    numbers = np.array([[1, 2, 3], [4, 5, 6]])
    total = native.call("weighed", numbers, -2)
    return total, numbers.tolist(), native.call("word", np.frombuffer(bytearray(b"xabcdefgh"), np.uint8), 1)


EXPECTED = -2 * (2 + 6 + 15 + 8 + 15 + 30), [[-2, -4, -6], [-8, -10, -12]], int.from_bytes(b"abcdefgh", "little")


def test_functions_answer_by_name_as_image_of_every_level_and_as_object_files(program: Program) -> None:
    functions = emit.compile_all(program)
    codes: list[Code] = [emit.objects(functions), *(emit.image(functions, level) for level in processor.levels_here())]
    for code in codes:
        assert answers(Native(code, program.names)) == EXPECTED


def test_an_array_in_pieces_or_of_somebody_elses_bytes_is_refused(program: Program) -> None:
    native = Native(emit.objects(emit.compile_all(program)), program.names)
    with pytest.raises(ValueError, match="one piece"):
        native.call("weighed", np.ones((4, 4), np.int64)[:, ::2], 1)
    with pytest.raises(ValueError, match="writeable"):
        native.call("word", np.frombuffer(b"nine bytes", np.uint8), 1)


def test_shipped_code_is_used_without_numba(shipped: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    if LEVEL is None:
        pytest.skip("object files need llvmlite")
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("compiles"))
    shipped.prepare()
    native = shipped.load()
    assert native is not None and answers(native) == EXPECTED


def test_code_of_other_sources_is_not_used(shipped: Program) -> None:
    assert shipped.load() is not None
    Path(shipped.sources[0]).write_text(SOURCE + "# changed")
    locate.cache_clear()
    assert shipped.load() is None


@needs_level
def test_code_of_a_level_that_this_processor_lacks_is_not_used(
    shipped: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warplens.loaders.native.functions.levels_here", lambda: ())
    assert shipped.load() is None


def test_damaged_code_is_not_used(shipped: Program) -> None:
    (file,) = programs.SHIPPED.iterdir()
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[len(flipped) // 2] ^= 1
    for data in (b"", b"half of it", flipped, whole):
        file.write_bytes(data)
        locate.cache_clear()
        assert (shipped.load() is not None) == (data == whole)


def test_where_nothing_fits_a_process_of_its_own_compiles_once(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    class Started:
        def __init__(self, command: list[str], **_: Any) -> None:
            started.append(command)

    monkeypatch.setattr("subprocess.Popen", Started)
    programs._compile_in_background.cache_clear()
    program.prepare()
    program.prepare()
    folder, target = started[0][-2:]
    assert len(started) == 1 and folder == str(compiled_here()) and target == (LEVEL or HOST)
    assert private.is_private(Path(folder))


def test_what_was_compiled_here_is_used_from_a_folder_that_is_ours_alone(program: Program) -> None:
    folder = private.make(compiled_here())
    write(folder, program, HOST, emit.objects(emit.compile_all(program)), program.digest())
    located = locate(program)
    assert located is not None and located.folder == folder and answers(located.native) == EXPECTED
    locate.cache_clear()
    folder.chmod(0o777)
    assert locate(program) is None


def test_without_numba_nothing_is_started(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "can_compile", lambda: False)
    started: list[object] = []
    monkeypatch.setattr("subprocess.Popen", lambda *call, **_: started.append(call))
    programs._compile_in_background.cache_clear()
    program.prepare()
    assert not started


def test_every_program_is_built() -> None:
    root = Path(build.__file__).parents[2]
    sources = [*(root / "loaders").rglob("*.py"), *(root / "analysis").rglob("*.py")]
    defining = [path for path in sources if re.search(r"= (compiled_p|P)rogram\(", path.read_text())]
    assert len(defining) == len(build.PROGRAMS) == len({program.name for program in build.programs()})


def test_building_imports_no_more_than_the_build_requires() -> None:
    """A package is built where polars and the rest are not installed; the code would silently be left out."""
    absent = "import sys; sys.modules.update(dict.fromkeys(('polars', 'orjson', 'isal', 'textual', 'scipy')))"
    listed = f"{absent}; from warplens.loaders.native.build import programs; print(len(programs()))"
    done = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True)
    assert done.stdout.split() == [str(len(build.PROGRAMS))], done.stderr


def test_doctor_says_whether_the_readers_are_compiled(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "programs", lambda: [program])
    monkeypatch.setattr(doctor, "can_compile", lambda: False)
    facts = dict(doctor.facts())
    assert facts["readers"].startswith("not compiled for this processor") and "warplens[compile]" in facts["readers"]
    code = emit.objects(emit.compile_all(program))
    write(private.make(compiled_here()), program, HOST, code, program.digest())
    locate.cache_clear()
    assert dict(doctor.facts())["readers"] == f"compiled for host, in {compiled_here()}"
    assert facts["cache"].endswith("can be written")


OTHERS = Image("a level nobody has", (0, 0), b"\xc3"), Objects("a processor nobody has", ("a", "b"), (b"", b""))


@pytest.mark.parametrize("code", OTHERS, ids=["image", "objects"])
def test_code_for_another_processor_is_refused(code: Code) -> None:
    with pytest.raises(Unusable, match="another processor"):
        Native(code, ("a", "b"))


def test_a_processor_has_the_levels_whose_abilities_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def here(flags: str) -> tuple[str, ...]:
        processor.levels_here.cache_clear()
        monkeypatch.setattr(processor, "_processor_lines", lambda: [b"model name : x", b"flags : " + flags.encode()])
        return processor.levels_here()

    second = "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"
    try:
        assert here("fpu sse2") == ()
        assert here(second) == ("x86-64-v2",)
        assert here(second + " avx avx2 bmi1 bmi2 f16c fma movbe abm") == ("x86-64-v3", "x86-64-v2")
        assert here(second + " avx avx2") == ("x86-64-v2",)
    finally:
        processor.levels_here.cache_clear()


@needs_level
def test_building_for_a_level_writes_an_image_for_it(program: Program, tmp_path: Path) -> None:
    """In a process of its own, as the build hook does, for numba is told the level before it is imported."""
    build_one = (
        "from warplens.loaders.native import build, program; "
        f"build.programs = lambda: [program.Program('test', {program.module!r}, {FUNCTIONS!r}, {program.sources!r})]; "
        f"build.main({str(programs.SHIPPED)!r}, {LEVEL!r})"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / '.dev'}{os.pathsep}{tmp_path}"}
    subprocess.run([sys.executable, "-c", build_one], check=True, env=environment)
    (file,) = programs.SHIPPED.iterdir()
    code = kept_code.read_file(file).code
    assert isinstance(code, Image) and code.level == LEVEL and file.name == f"test-{LEVEL}"
    assert answers(Native(code, program.names)) == EXPECTED


@needs_level
@pytest.mark.parametrize("one", build.programs(), ids=lambda one: str(one.name))
def test_a_program_is_an_image_that_needs_nothing_outside_itself(one: Program) -> None:
    code = kept_code.code(one)
    assert isinstance(code, Image) and 0 < len(code.code) < 1 << 16


def _object(text: str) -> bytes:
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    made: bytes = target.create_target_machine(reloc="pic", codemodel="small").emit_object(llvm.parse_assembly(text))
    return made


TWICE = "define i64 @half(i64 %x) { ret i64 %x }\ndefine i64 @twice(i64 %x) { %y = add i64 %x, %x\nret i64 %y }"
CALLS = "declare i64 @other(i64)\ndefine i64 @twice(i64 %x) { %y = call i64 @other(i64 %x)\nret i64 %y }"
POINTER = "ptr" if llvm.llvm_version_info >= (16,) else "i64*"
COUNTS = (
    "@n = internal global i64 5\n"
    f"define i64 @twice(i64 %x) {{ %y = load i64, {POINTER} @n\n store i64 %x, {POINTER} @n\n ret i64 %y }}"
)


def test_an_object_that_needs_others_or_keeps_something_is_not_linked() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    code, place = link(_object(TWICE), "twice")
    assert 0 < place < len(code)
    with pytest.raises(NotLinked, match="outside"):
        link(_object(CALLS), "twice")
    with pytest.raises(NotLinked, match="variables"):
        link(_object(COUNTS), "twice")
    with pytest.raises(NotLinked, match="does not hold"):
        link(_object(TWICE), "thrice")


def test_half_an_object_is_not_linked() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    whole = _object(TWICE)
    for size in range(0, len(whole) - 1, 7):
        with pytest.raises(NotLinked):
            link(whole[:size], "twice")
