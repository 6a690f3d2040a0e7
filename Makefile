# From a fresh clone `make demo` and `make test` are enough: each makes .venv by itself.
# PYTHON=/path/to/python chooses the interpreter for .venv; WORKERS=n the number of test processes.

SHELL := /bin/bash
PYTHON ?=
# Two for each of the two cores of CI: many tests wait for processes that they started.
WORKERS ?= 4

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# The tests start hundreds of processes; with a cache of bytecode none of them compiles the package again.
unexport PYTHONDONTWRITEBYTECODE
COMPILE := $(BIN)/python -m compileall -q src

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint compiled format clean

help:
	@echo "make demo      answer the questions in examples/"
	@echo "make test      lint, then the tests without the long tier"
	@echo "make test-all  lint, then all tests"
	@echo "make lint      ruff, mypy, the rooms"
	@echo "make format    let ruff rewrite what it can"
	@echo "make clean     remove .venv and the caches"

demo: $(VENV)/.stamp-runtime
	$(BIN)/python examples/demo.py

test: $(VENV)/.stamp-dev
	$(MAKE) --no-print-directory -j2 lint compiled
	$(PYTEST) -m "not long"

test-all: $(VENV)/.stamp-dev
	$(MAKE) --no-print-directory -j2 lint compiled
	$(PYTEST)

# The package, and the tests as pytest rewrites them: else each of the test processes would do it.
compiled: $(VENV)/.stamp-dev
	$(COMPILE)
	-$(BIN)/python -m pytest --collect-only -q -p no:cacheprovider > /dev/null

lint: $(VENV)/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff check --config ruff-rerun.toml .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/names.py

format: $(VENV)/.stamp-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist

# The stamps are written by the script; the developer's stamp stands for both.
$(VENV)/.stamp-runtime: pyproject.toml constraints.txt scripts/setup-venv.sh
	PYTHON="$(PYTHON)" scripts/setup-venv.sh runtime

$(VENV)/.stamp-dev: pyproject.toml constraints.txt scripts/setup-venv.sh scripts/setup-system.sh
	PYTHON="$(PYTHON)" scripts/setup-venv.sh dev
