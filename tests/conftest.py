"""What every test may use: where the real recordings are, when they are there."""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# a busy machine is no failure, and the same commit gives the same result; WARPLENS_EXPLORE=1 (make test-deep) looks for
# new cases, and for thirty times as many
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("deep", deadline=None, max_examples=300)
DEEP = "WARPLENS_EXPLORE" in os.environ
settings.load_profile("deep" if DEEP else "quick")

if "PYTEST_XDIST_WORKER" in os.environ and not DEEP:
    # a worker has one core: more threads of polars would be in each other's way; the processes tests start have them
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars  # which starts its threads

    assert polars.thread_pool_size() == 1
    del os.environ["POLARS_MAX_THREADS"]

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"


def pytest_make_parametrize_id(val: object) -> str | None:
    """A text of megabytes is no name of a test, which a worker sends with all it reports."""
    return ascii(val[:60]) if isinstance(val, str | bytes) and len(val) > 200 else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``deep`` are long and have a shorter one beside them."""
    for item in () if DEEP else items:
        if item.get_closest_marker("deep"):
            item.add_marker(pytest.mark.skip(reason="long: make test-deep runs it"))


def pytest_collection_finish() -> None:
    """What was imported and collected stays: a hundredth of a second for each look through it adds up to a minute."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real recordings; the test is skipped where it is absent."""
    if not DATA.is_dir():
        pytest.skip("the folder of real recordings is not here")
    return DATA


@pytest.fixture(scope="session")
def deep() -> bool:
    """Whether a test that goes through many cases goes through all of them rather than through a part."""
    return DEEP


@pytest.fixture(scope="session")
def samples() -> Path:
    """The small inputs the project carries, one per format."""
    return ROOT / "samples"


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names of folders that are not there yet; pytest's own numbering looks through all of them for each."""
    base = tmp_path_factory.mktemp("homes")
    return (base / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _own_cache(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache, configuration or state, nor the folder the tests were started in."""
    base = next(_homes)
    base.mkdir()
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(base / name))
    monkeypatch.chdir(base)
    os.environ.pop("NO_COLOR", None)


@pytest.fixture(scope="session", autouse=True)
def _nothing_left_in_the_repository() -> Iterator[None]:
    """What a test writes lies in a folder of its own. ``warplens-*`` are exports of an app in use meanwhile."""
    before = set(os.listdir(ROOT))
    yield
    left = {name for name in set(os.listdir(ROOT)) - before if not name.startswith((".", "__pycache__", "warplens-"))}
    assert not left, f"tests left {', '.join(sorted(left))} in the repository"
