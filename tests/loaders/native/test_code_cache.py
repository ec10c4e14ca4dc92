"""Functions compiled once are kept, loaded and called without what compiled them."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from msgspec import json

from warplens.loaders.ingest import private
from warplens.loaders.native import emit
from warplens.loaders.native.code_cache import Program
from warplens.loaders.native.functions import Code, Image, Native, Objects, Unusable, from_bytes, to_bytes
from warplens.loaders.native.link import NotLinked, link

SOURCE = """
import numpy as np
from numba import types
from warplens.loaders.native.jit import compiled, inlined
from warplens.loaders.native.simd import item, word_at

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

NUMBERS, TEXT = types.Array(types.int64, 2, "C"), types.Array(types.uint8, 1, "C")
SIGNATURES = {"word": (TEXT, types.int64), "weighed": (NUMBERS, types.int64)}
"""
NAMES = "weighed", "word"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Two functions in a module of their own, nowhere compiled."""
    source = tmp_path / "kept_for_a_test.py"
    source.write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, source.stem, raising=False)
    return Program("test", source.stem, NAMES, (str(source),))


def answers(native: Native) -> tuple[int, list[list[int]], int]:
    numbers = np.array([[1, 2, 3], [4, 5, 6]])
    total = native.call("weighed", numbers, -2)
    return total, numbers.tolist(), native.call("word", np.frombuffer(bytearray(b"xabcdefgh"), np.uint8), 1)


EXPECTED = -2 * (2 + 6 + 15 + 8 + 15 + 30), [[-2, -4, -6], [-8, -10, -12]], int.from_bytes(b"abcdefgh", "little")


def test_functions_answer_by_name_as_image_and_as_object_files(program: Program) -> None:
    functions = emit.compile_all(program.module, program.names)
    for code in (emit.packed(functions), emit.objects(functions)):
        assert answers(Native(from_bytes(to_bytes(code)), program.names)) == EXPECTED


def test_an_array_in_pieces_or_of_somebody_elses_bytes_is_refused(program: Program) -> None:
    native = Native(emit.emit(program.module, program.names), program.names)
    with pytest.raises(ValueError, match="one piece"):
        native.call("weighed", np.ones((4, 4), np.int64)[:, ::2], 1)
    with pytest.raises(ValueError, match="writeable"):
        native.call("word", np.frombuffer(b"nine bytes", np.uint8), 1)


def test_a_process_of_its_own_compiles_what_then_is_used(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    start, codes = subprocess.Popen, list[int]()

    def awaited(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        process = start(command, **options)
        codes.append(process.wait())
        return process

    monkeypatch.setattr("subprocess.Popen", awaited)
    place = program.folder()
    assert place is not None and place.name.startswith("test-") and not program.ready()
    program.prepare()
    assert codes == [0] and [file.name for file in place.iterdir()] == ["code"]
    program.prepare()
    assert len(codes) == 1
    native = program.functions()
    assert native is not None and answers(native) == EXPECTED
    assert program.functions() is native


def test_who_finds_that_somebody_compiles_starts_nothing(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    place = program.folder()
    assert place is not None
    holder = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", holder, str(place / "compiling")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("started"))
        program.prepare()
        process.communicate()


def test_a_compiler_that_was_killed_is_not_waited_for(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = subprocess.Popen, list[list[str]]()

    def noted(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        started.append(command)
        process = start(["true"], **options)
        process.wait()
        return process

    monkeypatch.setattr("subprocess.Popen", noted)
    place = program.folder()
    assert place is not None
    (place / "compiling").touch()  # left by it, and no longer locked
    program.prepare()
    assert len(started) == 1


@pytest.mark.parametrize(("end", "goes_on"), [("sys.exit()", True), ("os.kill(os.getpid(), 9)", False)])
def test_the_compiler_finishes_after_a_program_that_ended_and_ends_with_one_that_was_killed(
    program: Program, end: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler is stopped right after it began, so that the program is over when it goes on."""
    place = program.folder()
    assert place is not None
    begin = f"""
import os, signal, sys
from msgspec import json
from warplens.loaders.native import code_cache
code_cache.json.decode({json.encode(program)!r}, type=code_cache.Program).prepare()
os.kill(code_cache._begun[0].pid, signal.SIGSTOP)
print(code_cache._begun[0].pid, flush=True)
{end}
"""
    paths = os.pathsep.join(sys.path)
    began = subprocess.run([sys.executable, "-c", begin], capture_output=True, env={**os.environ, "PYTHONPATH": paths})
    compiler = int(began.stdout)
    os.kill(compiler, signal.SIGCONT)
    mark = os.open(place / "compiling", os.O_RDWR | os.O_CREAT)
    fcntl.flock(mark, fcntl.LOCK_EX)  # the compiler has it as long as it lives
    os.close(mark)
    assert program.ready() is goes_on


def test_other_sources_or_names_have_another_folder(program: Program) -> None:
    other = Program("test", program.module, NAMES[::-1], program.sources)
    assert other.folder() != program.folder()
    Path(program.sources[0]).write_text(f"{SOURCE}\n")
    changed = Program("other", program.module, NAMES, program.sources)
    assert changed.folder() is not None and program.folder() is not None
    assert changed.folder().name.partition("-")[2] != program.folder().name.partition("-")[2]


def test_what_is_damaged_is_removed_and_made_anew_for_the_next_process(program: Program) -> None:
    place = program.folder()
    assert place is not None
    (place / "code").write_bytes(b"half of it")
    assert program.ready() and program.functions() is None and not program.ready()
    program.compile()
    assert program.functions() is None, "a process that found it unusable does not try again"
    assert answers(Native(from_bytes(private.unsealed((place / "code").read_bytes())), program.names)) == EXPECTED


OTHERS = Image("a processor nobody has", (0, 0), b"\xc3"), Objects("a processor nobody has", ("a", "b"), (b"", b""))


@pytest.mark.parametrize("code", OTHERS, ids=["image", "objects"])
def test_code_that_is_cut_or_for_another_processor_is_refused(code: Code) -> None:
    with pytest.raises(Unusable, match="another processor"):
        Native(from_bytes(to_bytes(code)), ("a", "b"))
    for damaged in (to_bytes(code)[:20], b"half of it", b""):
        with pytest.raises(Unusable, match="none of ours"):
            from_bytes(damaged)


def test_a_processor_nobody_knows_runs_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warplens.loaders.native.functions.processor", str)
    with pytest.raises(Unusable):
        Native(Image("", (0, 0), b"\xc3"), ("a", "b"))


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
