# `make run` shows what the package does, `make test` tests it quickly, `make check` completely. Each sets itself up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# processes that run tests side by side
JOBS ?= 2
# tests of what computes the votes, which depends on the CPU
VOTES := $(addprefix tests/test_,engine.py votes.py smoothed.py capabilities.py)
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadfile
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: run reproduce test check long-tests other-cpus lint types docs dist results bench mutants clean

run: $(VENV)/.ready  ## certify the shipped MNIST digits with the shipped models, print the tables, draw curves and digits
	$(BIN)/sparsecert demo

reproduce: $(VENV)/.ready  ## a table or figure of the paper: make reproduce TARGET=table-1
	$(BIN)/python -m studies.levine_feizi_2020 $(TARGET)

test: $(VENV)/.ready-test  ## the quick tests, for every change
	$(PYTEST)

check: lint types docs test long-tests other-cpus  ## everything that must hold before a change is merged

long-tests: $(VENV)/.ready-test  ## tests that take long or need another program: Ray, a browser, pages, the wheel, studies
	$(PYTEST) -m 'check and not slow'

other-cpus: $(VENV)/.ready-test  ## the votes, computed as on CPUs with fewer instructions
	ATEN_CPU_CAPABILITY=default $(PYTEST) $(VOTES)
	ONEDNN_MAX_CPU_ISA=AVX2 $(PYTEST) $(VOTES)

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-test
	$(BIN)/mypy

docs: $(VENV)/.ready-test  ## the pages of docs/, as a site in build/site that needs nothing from elsewhere
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

dist: $(VENV)/.ready-test  ## wheel and source archive, in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation

results: $(VENV)/.ready  ## the numbers of README.md and docs/, from the records of the study and of results/
	$(BIN)/python -m results.pages

bench: $(VENV)/.ready  ## ratios measured in one run
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.sizes
	$(BIN)/python -m benchmarks.sequential
	$(BIN)/python -m benchmarks.growth
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.elections
	$(BIN)/python -m benchmarks.busy

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
