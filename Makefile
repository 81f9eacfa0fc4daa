# Two commands for a newcomer: `make demo` and `make test`. Both make the environment themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TESTS_INSTALLED := $(VENV)/.tests-installed
DOCS_INSTALLED := $(VENV)/.docs-installed

# Hundreds of processes start in a test run: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Python 3.11 reads the path of an editable installation in the locale's encoding, which is ASCII here.
ifneq ($(filter C POSIX,$(LC_ALL)),)
export LC_ALL := C.UTF-8
endif

.DEFAULT_GOAL := help
.PHONY: help install install-docs docs demo up test test-rest test-peers test-redis test-all test-fast test-repeated wheels guards mutants lint format contract pictures lock bench bench-quick bench-recall bench-quality bench-hybrid chaos chaos-full chaos-nights chaos-slice fuzz clean test-containers

help:  ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

# The client, then the project that needs it, with extras. `make demo` installs no tools of developers.
EXTRAS = embedded monitoring semantic inspector documents
TEST_EXTRAS = $(EXTRAS) multilingual tokenizer dev
PIP = @$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
define INSTALL
$(PIP) -e client $(addprefix -e .,$(patsubst %,[%],$(1)))
endef

# One at a time, where flock is (Linux): a second `make` waits, and then has nothing to do.
ifndef LOCKED
$(INSTALLED): pyproject.toml client/pyproject.toml constraints.txt
	@$(if $(shell command -v flock),flock pyproject.toml) $(MAKE) --no-print-directory LOCKED=1 $@
else
$(INSTALLED): pyproject.toml client/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11, 3.12, 3.13 or 3.14 is needed, found %d.%d: make demo PYTHON=python3.13" % sys.version_info[:2] if not (3, 11) <= sys.version_info < (3, 15) else 0)'
	@# Begin again where an installation was interrupted: half of pip can't mend itself.
	$(PYTHON) -m venv $(if $(wildcard $@),,--clear) $(VENV)
	$(call INSTALL,$(EXTRAS))
	@touch $@
endif

$(TESTS_INSTALLED): $(INSTALLED)
	$(call INSTALL,$(TEST_EXTRAS))
	@touch $@

install: $(TESTS_INSTALLED)  ## make the environment (.venv), with all that tests and checks need

install-docs: $(DOCS_INSTALLED)  ## and what `make docs` needs

demo: $(INSTALLED)  ## the whole way of a job on this machine, as two callers; leaves nothing running
	@$(BIN)/retrieval-worker demo

up: $(INSTALLED)  ## keep Postgres, Redis, a worker, the inspector and Flower running until Ctrl-C
	@$(BIN)/retrieval-worker up

# Each process has servers of its own. The slowest files come first, in the order of their names. What `make test` leaves
# out waits more than it computes (for workers, servers, time limits): it gets two processes more than there are cores.
PYTEST = $(BIN)/python -m pytest -n $(or $(TEST_PROCESSES),$(1)) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: $(TESTS_INSTALLED)  ## what to run after a change, real Postgres, Valkey and workers included; TEST_PROCESSES=1
	$(call PYTEST,logical) -m 'not full' --hypothesis-profile quick

test-rest: $(TESTS_INSTALLED)  ## what `make test` leaves out: PostgreSQL 16, plans, replicas, links, faults, browser, containers, examples
	-$(call INSTALL,postgres16)
	$(call PYTEST,$(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)) -m '(full or hypothesis) and not peers'

test-peers: $(TESTS_INSTALLED)  ## our figures and tables beside ranx, LangChain and LlamaIndex, each in an environment of its own
	$(call PYTEST,logical) -m peers

# What depends on the broker's server, on another one than the bundled Valkey.
ON_REDIS = $(wildcard tests/integration/test_client_*.py) $(addprefix tests/integration/test_, \
  async_client.py cache.py dead_letters.py delayed.py durability.py priorities.py process.py redis_as_shipped.py \
  results.py claims.py too_long.py) \
  $(addprefix tests/acceptance/test_,acknowledgement.py chaos.py each_task.py full_redis.py guarded_redis.py nothing_lost.py)
REDIS_SERVER ?= redis-server

test-redis: $(TESTS_INSTALLED)  ## claims, client, users and the chaos slice on the redis-server of PATH; REDIS_SERVER=valkey-server
	REDIS_SERVER=$(REDIS_SERVER) $(call PYTEST,logical) $(ON_REDIS)

RUNS ?= 20
BESIDE ?= 0

test-repeated: $(TESTS_INSTALLED)  ## `make test` 20 times in a row, into benchmarks/results; RUNS=5 BESIDE=2 (busy loops)
	$(BIN)/python -m tests.repeated --runs $(RUNS) --beside $(BESIDE) --write benchmarks/results

wheels:  ## that all that `make demo` installs has wheels for every platform and Python
	@$(MAKE) --no-print-directory VENV=build/demo build/demo/.installed
	build/demo/bin/python -m tests.wheels

test-all: test test-rest test-peers  ## everything, in an hour or so

test-fast: $(TESTS_INSTALLED)  ## what needs no servers
	$(call PYTEST,logical) tests/unit -m 'not full' --hypothesis-profile quick

guards: $(TESTS_INSTALLED)  ## remove each guard of rights, loss and secrets in turn, in a copy: at least one test must fail
	$(BIN)/python -m tests.guards

MUTANTS ?=

mutants: $(TESTS_INSTALLED)  ## list small changes of the pure parts that no unit test notices; MUTANTS='worker.core.pins.*'
	$(call INSTALL,mutants)
	$(BIN)/mutmut run $(MUTANTS)
	$(BIN)/mutmut results

test-containers: $(TESTS_INSTALLED)  ## docker-compose.yml for real; starts a Docker engine if none answers (root on Debian)
	tests/containers/engine.sh $(BIN)/python -m pytest tests/containers

lint: $(TESTS_INSTALLED)  ## ruff, mypy, and that docs/contract matches the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/retrieval-worker contract --check

$(DOCS_INSTALLED): $(TESTS_INSTALLED)
	$(call INSTALL,docs)
	@touch $@

docs: $(DOCS_INSTALLED)  ## the documentation as a site, in build/docs; a warning is an error
	$(BIN)/python -m sphinx -b html -E -n -W --keep-going -q -d build/doctrees docs build/docs

pictures: $(TESTS_INSTALLED)  ## the pictures of the inspector, into docs/images, by the system's Chromium
	PYTHONPATH=docs/_ext $(BIN)/python -m inspector_pictures

format: $(TESTS_INSTALLED)  ## let ruff format and mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

contract: $(TESTS_INSTALLED)  ## write docs/contract, docs/reference, the client's examples, and blocking.py from asynchronous.py
	$(BIN)/retrieval-worker contract
	$(BIN)/python -c 'from workbench import schemas; print(schemas.client_examples().decode(), end="")' \
	  > client/retrieval_client/examples.json
	PYTHONPATH=docs/_ext $(BIN)/python -m reference_pages
	PYTHONPATH=docs/_ext $(BIN)/python -m blocking_client

IMAGE_EXTRAS = monitoring inspector semantic

lock: $(INSTALLED)  ## write requirements-image.txt: what the image installs, with hashes
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-tools
	@mkdir -p build && rm -f build/image.txt
	@echo 'hatchling>=1.25' > build/image.in
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build ./client
	@$(BIN)/pip-compile --quiet --generate-hashes --no-header --no-annotate --strip-extras --unsafe-package retrieval-client \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --find-links build $(addprefix --extra ,$(IMAGE_EXTRAS)) \
	  -c constraints.txt --output-file build/image.txt pyproject.toml build/image.in
	@echo '# What the image installs, each file by its hash: pip takes nothing else. Written by `make lock` from constraints.txt.' \
	  | cat - build/image.txt | sed '/^$$/,$$d' > requirements-image.txt

BENCH_ROWS ?= 100000

bench: $(TESTS_INSTALLED)  ## this worker beside LangChain, LlamaIndex, a bare loop and more, into benchmarks/results; BENCH_ROWS=300000
	$(call INSTALL,bench)
	$(BIN)/python -m benchmarks.side_by_side --rows $(BENCH_ROWS) --write benchmarks/results

bench-quick: $(TESTS_INSTALLED)  ## the same on 10,000 rows, in minutes, to look at
	$(call INSTALL,bench)
	$(BIN)/python -m benchmarks.side_by_side --rows 10000 --queries 80 --count 160 --calls 20

bench-recall: $(TESTS_INSTALLED)  ## recall against exact search on 100,000 rows
	$(BIN)/python -m benchmarks.recall --rows 100000

bench-quality: $(TESTS_INSTALLED)  ## nDCG and recall of every leg and fusion on the labelled set, into benchmarks/results
	$(call INSTALL,bench)
	$(BIN)/python -m benchmarks.quality --write benchmarks/results
	$(BIN)/python -m benchmarks.no_answer --write benchmarks/results
	$(BIN)/python -m benchmarks.followups --write benchmarks/results

bench-hybrid: $(TESTS_INSTALLED)  ## four searches beside one, on 100,000 rows a corpus
	$(BIN)/python -m benchmarks.hybrid_speed --rows 100000

chaos: $(TESTS_INSTALLED)  ## nothing lost under faults, the aimed ones too: 20,000 jobs, 168 faults, half an hour
	$(BIN)/python -m chaos --jobs 20000 --worker-kills 80 --redis-kills 12 --postgres-kills 12 --blackholes 8 \
	  --freezes 8 --others 2 --aimed 2

SEEDS ?= 20

chaos-slice: $(TESTS_INSTALLED)  ## what CI runs (5,000 jobs, 75 faults, 5 minutes) with 20 seeds in a row, 423727 first; SEEDS=3
	$(BIN)/python -m chaos --seeds $(SEEDS)

chaos-nights: $(TESTS_INSTALLED)  ## runs of 300,000 jobs until it is stopped, over as many nights as it takes; their sum goes on in benchmarks/results
	$(BIN)/python -m chaos --seeds 100 --jobs 300000 --aimed 1 --recycle 1000 --into benchmarks/results/nights.jsonl

chaos-full: $(TESTS_INSTALLED)  ## the same for hours, 100,000 jobs, into benchmarks/results
	$(call INSTALL,bench)
	$(BIN)/python -m chaos --jobs 100000 --worker-kills 1000 --redis-kills 200 --postgres-kills 100 --blackholes 100 \
	  --freezes 50 --others 10 --aimed 10 --report benchmarks/results/reliability.md

fuzz: $(TESTS_INSTALLED)  ## 1,000,000 messages grown from hard shapes, each within 50 ms a MB and 200 MB; then 20,000 through real workers
	$(BIN)/python -m chaos grown --messages 1000000
	$(BIN)/python -m chaos fuzz --messages 20000

clean:  ## remove the environment and caches
	rm -rf $(VENV) benchmarks/.peers benchmarks/.data .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist mutants
