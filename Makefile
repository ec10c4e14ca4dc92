# Two commands set up everything on a machine with python3, pip, venv and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OLDEST := $(VENV)/textual-oldest

.PHONY: demo docs figures test test-deep checks lint types imports unit clean

demo: $(VENV)/.installed
	@$(BIN)/warplens demo

# what only reads the code runs beside the tests, which leave a core idle where they wait
test: $(VENV)/.dev-installed
	@$(MAKE) --no-print-directory -j2 checks unit

# the pages of docs/ as a site, in site/; needs no network
docs: $(VENV)/.dev-installed
	$(BIN)/python .ci/build_docs.py site

# docs/figures.md, of this commit on this machine
figures: $(VENV)/.dev-installed
	@$(BIN)/python benchmarks/figures.py

checks: lint types imports

lint: $(VENV)/.dev-installed
	$(BIN)/ruff check .

types: $(VENV)/.dev-installed
	$(BIN)/mypy

imports: $(VENV)/.dev-installed
	cd .dev && PYTHONPATH=. ../$(BIN)/lint-imports --config ../pyproject.toml --no-cache

# asserts that tell their values cost each worker 16 s of CPU time to make: they are made for what failed alone
unit: $(VENV)/.dev-installed
	$(BIN)/pytest -n 2 --dist worksteal --assert=plain || { $(BIN)/pytest --last-failed --last-failed-no-failures none; exit 1; }

# what they compile is kept for the other processes they start, also where the environment says otherwise
unit test-deep: export PYTHONDONTWRITEBYTECODE =

# the same tests with thirty times as many cases, others each time: about one and a half times as long
test-deep: $(VENV)/.dev-installed $(OLDEST)/.installed
	WARPLENS_EXPLORE=1 $(BIN)/pytest -n 2 --dist worksteal
	$(OLDEST)/bin/python -m pytest -n 2 --dist worksteal tests/tui

# the oldest Textual that pyproject allows, in front of everything the other environment has
$(OLDEST)/.installed: $(VENV)/.dev-installed tui/terminal/textual_hooks.py
	$(PYTHON) -m venv --clear --without-pip $(OLDEST)
	$(BIN)/python -c 'import sys, sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > "$$($(OLDEST)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/others.pth"
	$(BIN)/pip install -q --disable-pip-version-check --no-deps \
	  --target "$$($(OLDEST)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	  "textual==$$($(BIN)/python -c 'from warplens.tui.terminal.textual_hooks import OLDEST; print(*OLDEST, sep=".")')"
	@touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -q --disable-pip-version-check -e .
	@touch $@

# uv takes 26 s of CPU time for it where pip takes 54; pip where uv is not told of the index that pip's settings name.
# Compiling every module it installs takes pip a third of its time; for this variable 0 means "do not compile"
$(VENV)/.dev-installed: export PIP_NO_COMPILE = 0
$(VENV)/.dev-installed: pyproject.toml | $(VENV)/bin/python
	@$(BIN)/pip install -q --disable-pip-version-check uv
	$(BIN)/uv pip install -q --python $(BIN)/python -e '.[dev]' || $(BIN)/pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
