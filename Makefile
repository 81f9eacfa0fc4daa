# Two commands for a newcomer: `make demo` and `make test`. Both make the environment themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.docs-installed

# Hundreds of processes start in a test run: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install install-docs docs demo up test test-rest test-all test-fast guards mutants lint format contract pictures lock bench bench-quick bench-recall bench-quality bench-hybrid chaos chaos-full chaos-slice fuzz clean test-containers

help:  ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

# The project with extras; its client from client/, where it can be changed.
EXTRAS = embedded monitoring llm tokenizer semantic inspector dev
PIP = @$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
define INSTALL
$(PIP) $(addprefix -e .,$(patsubst %,[%],$(1)))
$(PIP) --no-deps -e client
endef

$(INSTALLED): pyproject.toml client/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, found %d.%d: make demo PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(call INSTALL,$(EXTRAS))
	@touch $@

install: $(INSTALLED)  ## make the environment (.venv)

install-docs: $(DOCS_INSTALLED)  ## and what `make docs` needs

demo: $(INSTALLED)  ## the whole way of a job on this machine, as two callers; leaves nothing running
	@$(BIN)/retrieval-worker demo

up: $(INSTALLED)  ## keep Postgres, Redis, a worker, the inspector and Flower running until Ctrl-C
	@$(BIN)/retrieval-worker up

# Each process has servers of its own. The slowest files come first, in the order of their names. What `make test` leaves
# out waits more than it computes (for workers, servers, time limits): it gets a process more than there are cores.
PYTEST = $(BIN)/python -m pytest -n $(or $(TEST_PROCESSES),$(1)) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: $(INSTALLED)  ## what to run after a change, real Postgres, Redis and workers included; TEST_PROCESSES=1
	$(call PYTEST,logical) -m 'not full' --hypothesis-profile quick

test-rest: $(INSTALLED)  ## what `make test` leaves out: PostgreSQL 16, plans, replicas, links, faults, containers, examples
	$(call PYTEST,$(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)) -m 'full or hypothesis'

test-all: test test-rest  ## everything, in an hour or so

test-fast: $(INSTALLED)  ## what needs no servers
	$(BIN)/python -m pytest tests/unit

guards: $(INSTALLED)  ## remove each guard of rights, loss and secrets in turn, in a copy: at least one test must fail
	$(BIN)/python -m tests.guards

MUTANTS ?=

mutants: $(INSTALLED)  ## list small changes of worker/core that no unit test notices; MUTANTS='worker.core.pins.*'
	$(call INSTALL,mutants)
	$(BIN)/mutmut run $(MUTANTS)
	$(BIN)/mutmut results

test-containers: $(INSTALLED)  ## docker-compose.yml for real; starts a Docker engine if none answers (root on Debian)
	tests/containers/engine.sh $(BIN)/python -m pytest tests/containers

lint: $(INSTALLED)  ## ruff, mypy, and that docs/contract matches the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/retrieval-worker contract --check

$(DOCS_INSTALLED): $(INSTALLED)
	$(call INSTALL,docs)
	@touch $@

docs: $(DOCS_INSTALLED)  ## the documentation as a site, in build/docs; a warning is an error
	$(BIN)/python -m sphinx -b html -E -n -W --keep-going -q -d build/doctrees docs build/docs

pictures: $(INSTALLED)  ## the pictures of the inspector, into docs/images, by the system's Chromium
	PYTHONPATH=docs/_ext $(BIN)/python -m inspector_pictures

format: $(INSTALLED)  ## let ruff format and mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

contract: $(INSTALLED)  ## write docs/contract, docs/reference and the examples of the client from the types
	$(BIN)/retrieval-worker contract
	$(BIN)/python -c 'from worker.cli import schemas; print(schemas.client_examples().decode(), end="")' \
	  > client/retrieval_client/examples.json
	PYTHONPATH=docs/_ext $(BIN)/python -m reference_pages

lock: $(INSTALLED)  ## write requirements-image.txt: what the image installs, with hashes
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-tools
	@mkdir -p build && rm -f build/image.txt
	@echo 'hatchling>=1.25' > build/image.in
	@$(BIN)/pip-compile --quiet --generate-hashes --no-header --no-annotate --strip-extras --allow-unsafe --no-emit-index-url \
	  --no-emit-trusted-host --no-emit-find-links --extra monitoring -c constraints.txt --output-file build/image.txt \
	  pyproject.toml build/image.in
	@echo '# What the image installs, each file by its hash: pip takes nothing else. Written by `make lock` from constraints.txt.' \
	  | cat - build/image.txt > requirements-image.txt

BENCH_ROWS ?= 100000

bench: $(INSTALLED)  ## this worker beside LangChain, LlamaIndex, a bare loop and more, into benchmarks/results; BENCH_ROWS=300000
	$(call INSTALL,bench)
	$(BIN)/python -m benchmarks.side_by_side --rows $(BENCH_ROWS) --write benchmarks/results

bench-quick: $(INSTALLED)  ## the same on 10,000 rows, in minutes, to look at
	$(call INSTALL,bench)
	$(BIN)/python -m benchmarks.side_by_side --rows 10000 --queries 80 --count 160 --calls 20

bench-recall: $(INSTALLED)  ## recall against exact search on 100,000 rows
	$(BIN)/python -m benchmarks.recall --rows 100000

bench-quality: $(INSTALLED)  ## nDCG and recall of every leg and fusion on the labelled set, into benchmarks/results
	$(call INSTALL,bench)
	$(BIN)/python -m benchmarks.quality --write benchmarks/results

bench-hybrid: $(INSTALLED)  ## four searches beside one, on 100,000 rows a corpus
	$(BIN)/python -m benchmarks.hybrid_speed --rows 100000

chaos: $(INSTALLED)  ## nothing lost under faults, the aimed ones too: 20,000 jobs, 168 faults, half an hour
	$(BIN)/python -m chaos --jobs 20000 --worker-kills 80 --redis-kills 12 --postgres-kills 12 --blackholes 8 \
	  --freezes 8 --others 2 --aimed 2

SEEDS ?= 20

chaos-slice: $(INSTALLED)  ## what CI runs (5,000 jobs, 75 faults, 5 minutes) with 20 seeds in a row, 423727 first; SEEDS=3
	$(BIN)/python -m chaos --seeds $(SEEDS)

chaos-full: $(INSTALLED)  ## the same for hours, 100,000 jobs, into benchmarks/results
	$(call INSTALL,bench)
	$(BIN)/python -m chaos --jobs 100000 --worker-kills 1000 --redis-kills 200 --postgres-kills 100 --blackholes 100 \
	  --freezes 50 --others 10 --aimed 10 --report benchmarks/results/reliability.md

fuzz: $(INSTALLED)  ## 1,000,000 messages grown from hard shapes, each within 50 ms a MB and 200 MB; then 20,000 through real workers
	$(BIN)/python -m chaos grown --messages 1000000
	$(BIN)/python -m chaos fuzz --messages 20000

clean:  ## remove the environment and caches
	rm -rf $(VENV) benchmarks/.peers benchmarks/.data .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist mutants
