# Two commands set up everything on a machine with python3, pip, venv and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-deep checks lint types imports unit clean

demo: $(VENV)/.installed
	@$(BIN)/warplens demo

# what only reads the code runs beside the tests, which leave a core idle where they wait
test: $(VENV)/.dev-installed
	@$(MAKE) --no-print-directory -j2 checks unit

checks: lint types imports

lint: $(VENV)/.dev-installed
	$(BIN)/ruff check .

types: $(VENV)/.dev-installed
	$(BIN)/mypy

imports: $(VENV)/.dev-installed
	cd .dev && PYTHONPATH=. ../$(BIN)/lint-imports --config ../pyproject.toml --no-cache

unit: $(VENV)/.dev-installed
	$(BIN)/pytest -n 2 --dist worksteal

# the same tests with fifteen times as many cases, others each time: about one and a half times as long
test-deep: $(VENV)/.dev-installed
	WARPLENS_EXPLORE=1 $(BIN)/pytest -n 2 --dist worksteal

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev-installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
