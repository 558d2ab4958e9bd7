# Two commands do everything on a fresh machine: `make run` and `make test`. Each sets itself up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# processes that run tests side by side
JOBS ?= 2
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: run test results bench mutants lint types tests docs dist clean

run: $(VENV)/.ready  ## certify the shipped MNIST images with the shipped model, print the table, draw curve and digits
	$(BIN)/sparsecert reproduce headline --out runs

test: lint types docs tests  ## everything that must hold

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-test
	$(BIN)/mypy

tests: $(VENV)/.ready-test
	$(BIN)/pytest -n $(JOBS) --dist loadfile

docs: $(VENV)/.ready-test  ## the pages of docs/, as a site in build/site that needs nothing from elsewhere
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

dist: $(VENV)/.ready-test  ## wheel and source archive, in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation

results: $(VENV)/.ready  ## the numbers of README.md and docs/, from the records in results/
	$(BIN)/python results/pages.py

bench: $(VENV)/.ready  ## ratios measured in one run
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.sizes
	$(BIN)/python -m benchmarks.sequential
	$(BIN)/python -m benchmarks.growth

mutants: $(VENV)/.ready-test  ## is every comparison, sign and small number of the core formulas held by a test?
	$(BIN)/python -m benchmarks.mutants

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable .
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready
	$(PIP) --editable '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache
