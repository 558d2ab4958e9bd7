# Two commands do everything on a fresh machine: `make run` and `make test`. Each sets itself up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
RUN := runs/digits

.PHONY: run test bench lint types tests clean

run: $(VENV)/.ready  ## train on the built-in digits, certify the held-out ones, print the table, draw the curve
	$(BIN)/sparsecert train --data digits --out $(RUN)
	$(BIN)/sparsecert certify $(RUN) --data digits --n0 500 --n 5000 --out $(RUN)/certify.jsonl
	$(BIN)/sparsecert report $(RUN)/certify.jsonl --format json --plot $(RUN)/curve > $(RUN)/report.json
	@echo "records: $(RUN)/certify.jsonl   report: $(RUN)/report.json   curve: $(RUN)/curve.png, $(RUN)/curve.svg"

test: lint types tests  ## everything that must hold

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-test
	$(BIN)/mypy

tests: $(VENV)/.ready-test
	$(BIN)/pytest

bench: $(VENV)/.ready  ## ratios measured in one run
	$(BIN)/python -m benchmarks.overhead

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
