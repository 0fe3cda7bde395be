.DEFAULT_GOAL := help
.PHONY: help setup servers demo java test test-fast check docs sim bench bench-runtime clean

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp

# Override on the command line: make test PYTEST_ARGS="-k barriers -x"
PYTEST_ARGS ?=
# One more than two cores: a third of the time tests wait for processes, clocks and servers.
PYTEST_WORKERS ?= 3
SEEDS ?= 2000
# Override on the command line: make demo ARGS="--duration 20s --no-kill"
ARGS ?=

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## create .venv with Snapline and its development tools

$(STAMP): pyproject.toml
	@if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    found=; \
	    for candidate in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
	        if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$candidate; break; fi; \
	    done; \
	    if [ -z "$$found" ]; then \
	        echo "Snapline needs Python 3.11 or newer, and none was found (tried: $(or $(PYTHON),python3 python3.13 python3.12 python3.11))." >&2; \
	        echo "Install it, for example the packages python3.11 and python3.11-venv, or name one: make setup PYTHON=/path/to/python3" >&2; \
	        exit 1; \
	    fi; \
	    if ! $$found -c 'import ensurepip, venv' 2>/dev/null; then \
	        version=$$($$found -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	        echo "$$found has no venv module. Install it: on Debian and Ubuntu it is the package python$$version-venv." >&2; \
	        exit 1; \
	    fi; \
	    echo "Creating $(VENV) with $$($$found --version)"; \
	    $$found -m venv --clear $(VENV); \
	fi
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: java setup  ## see a job survive kill -9, in about a minute (needs Java 17)
	@$(BIN)/snapline demo $(ARGS)

java:
	@if [ -n "$$JAVA_HOME" ]; then found="$$JAVA_HOME/bin/java"; else found=java; fi; \
	if ! command -v "$$found" >/dev/null; then \
	    echo "The demo runs on Spark, which needs Java 17 or newer; $$found was not found." >&2; \
	    echo "Install it, for example: apt install default-jre-headless; or let JAVA_HOME name one." >&2; \
	    exit 1; \
	fi

servers: setup  ## fetch or install what the tests need: Kafka, PostgreSQL, Chromium
	@$(BIN)/python -m snapline.devtools.servers

# Browsers, brokers and Sparks are processes beside those of pytest: for tests with them, two of these are enough.
test: servers  ## run all tests
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal -m "not apart" $(PYTEST_ARGS) || [ $$? -eq 5 ]
	$(BIN)/python -m pytest -n 2 --dist loadfile -m apart $(PYTEST_ARGS) || [ $$? -eq 5 ]

test-fast: setup  ## run the tests that take less than a minute together
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal -m "not slow" $(PYTEST_ARGS)

check: setup  ## lint, formatting, types, layers, fresh pages, and known vulnerabilities of packages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/unit/test_layers.py
	$(BIN)/python -m snapline.devtools.pages.machines_page --check
	$(BIN)/python -m snapline.devtools.pages.reference_page --check
	$(BIN)/python -m snapline.devtools.pages.functions_page --check
	$(BIN)/python -m snapline.devtools.audit

docs: setup  ## make docs/machines.md from the transition tables, docs/reference.md from the docstrings, docs/functions.md from the expressions, and pictures
	$(BIN)/python -m snapline.devtools.pages.machines_page
	$(BIN)/python -m snapline.devtools.pages.reference_page
	$(BIN)/python -m snapline.devtools.pages.functions_page
	$(BIN)/python examples/explain.py docs/images/plan.svg >/dev/null

sim: setup  ## run the simulator over SEEDS seeds (2000)
	$(BIN)/python -m snapline.testing.sim --seeds $(SEEDS)

bench: setup  ## measure the protocol core and state
	$(BIN)/python -m benchmarks.protocol
	$(BIN)/python -m benchmarks.state

bench-runtime: setup  ## measure exchange, checkpoints, back-pressure, recovery and memory on Spark (20 minutes)
	$(BIN)/python -m benchmarks.exchange
	$(BIN)/python -m benchmarks.checkpoint_cost
	$(BIN)/python -m benchmarks.backpressure
	$(BIN)/python -m benchmarks.recovery
	$(BIN)/python -m benchmarks.memory

clean:  ## remove .venv, caches and build results
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
