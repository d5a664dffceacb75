# `make demo` and `make test` need Python 3.11 or later, make, and the package registry.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check bench format constraints clean
.DEFAULT_GOAL := help

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Onward needs Python 3.11 or later; try make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/ready-dev: .venv/ready constraints-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints-dev.txt -e '.[dev]'
	@touch $@

demo: .venv/ready  ## a workflow survives a killed worker, before your eyes
	@$(BIN)/python examples/demo.py

check: .venv/ready-dev  ## format, lint, layers, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

test: check  ## everything that CI runs
	$(BIN)/python -m pytest

bench: .venv/ready-dev  ## the figures of docs/performance.md, on this machine
	@$(BIN)/python bench $(MEASURES)

format: .venv/ready-dev  ## puts the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

constraints:  ## pins today's versions, without registry addresses
	uv pip compile --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url pyproject.toml -o constraints.txt
	uv pip compile --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url --extra dev pyproject.toml -o constraints-dev.txt

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
