# pgstrata: `make demo` shows it, `make test` checks it. Both set up what is missing.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock pyproject.toml
# A toolchain installed by rustup is used even where the shell does not know of it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
# The servers that demo and tests need are fetched by them; everything else is here.
# Tests wait for measured seconds half of their time.
JOBS ?= $(shell expr 3 \* $$(nproc))
# Tests start the program a thousand times: where nothing compiled is kept, each start compiles all of it.
unexport PYTHONDONTWRITEBYTECODE
# How often 'make slow' kills pgstrata at random and looks for what is left.
KILLS ?= 300
# How many malformed files of each kind and how many hostile archives it reads.
MALFORMED ?= 100000
ARCHIVES ?= 10000
# How often it interrupts commands by Ctrl-C, and how often another user attacks each of them.
INTERRUPTS ?= 1000
ATTACKS ?= 2
# With STATE=FOLDER the studies of interrupts, attacks and accidents go on there, each for so many hours at once.
STATE ?=
HOURS ?= 10

.PHONY: help demo quick quick-checks quick-tests test test-python test-rust slow check check-python check-rust \
	format schemas reference dist setup clean

help:
	@echo "make demo    compare PostgreSQL 12 and 17 at three steps (90 seconds, once it is set up)"
	@echo "make quick   ruff, mypy and the tests that need no server and no compiled program (a minute)"
	@echo "make test    run every test"
	@echo "make slow    run the long studies that 'make test' leaves out (KILLS=300 random kills, MALFORMED=100000 files of each kind, ARCHIVES=10000, INTERRUPTS=1000, ATTACKS=2; in pieces with STATE=FOLDER HOURS=1)"
	@echo "make check   formatters and linters"
	@echo "make schemas write docs/driver-*.schema.json anew, and from them Python's types and their reference"
	@echo "make reference  write docs/reference/*.md anew from the program"
	@echo "make dist    wheels for x86-64 and aarch64, source archive, list of parts and check sums (RELEASING.md)"
	@echo "make setup   only set up: $(BIN)/pgstrata"
	@echo "make clean   remove what setup and builds made (not results, not fetched servers)"

demo: setup
	$(BIN)/pgstrata demo

# Nothing is compiled here where 'make setup' has run once.
quick: | $(BIN)/pgstrata
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target quick-checks quick-tests

quick-checks:
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy

quick-tests:
	$(BIN)/pytest -q -n $(shell nproc) --dist worksteal -m "not server and not program and not long and not slow"

$(BIN)/pgstrata:
	$(MAKE) setup

test: test-rust test-python

test-rust: setup
	cargo test --release --locked

# The files that take longest begin first (tests/support/order.py), so that none is left over at the end.
test-python: setup
	tests/in_memory.sh $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not slow"

slow: setup
	PGSTRATA_ARCHIVES=$(ARCHIVES) cargo test --release --locked -p pgstrata-tools hostile
	PGSTRATA_KILLS=$(KILLS) PGSTRATA_MALFORMED=$(MALFORMED) PGSTRATA_ARCHIVES=$(ARCHIVES) \
		PGSTRATA_INTERRUPTS=$(INTERRUPTS) PGSTRATA_ATTACKS=$(ATTACKS) \
		PGSTRATA_STUDY_STATE=$(STATE) PGSTRATA_STUDY_HOURS=$(HOURS) $(BIN)/pytest -m slow

check: check-python check-rust

# Nothing compiled is needed here: beside other targets it takes the CPU that compilation leaves idle.
check-python: $(VENV)/.packages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports
	$(BIN)/codespell

check-rust: setup
	cargo fmt --check
	cargo clippy --release --locked --all-targets -- -D warnings

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cargo fmt

# The schemas of the driver's two dialects are made from its types, and Python's types and the reference from the
# schemas; tests hold them equal.
schemas:
	cargo build --release --locked --bin pgstrata-driver
	for dialect in spec events; do \
	  target/release/pgstrata-driver schema $$dialect >docs/driver-$$dialect.schema.json || exit 1; \
	  $(BIN)/python -m pgstrata.driver.generate $$dialect >src/pgstrata/driver/$$dialect.py.new || exit 1; \
	  mv src/pgstrata/driver/$$dialect.py.new src/pgstrata/driver/$$dialect.py; done
	$(BIN)/python -m pgstrata.driver.reference >docs/reference/driver.md

# The reference pages are made from the program, its models, types and schemas; tests hold them equal.
reference: setup
	$(BIN)/python -m pgstrata.cli.reference >docs/reference/cli.md.new
	$(BIN)/python -m pgstrata.campaign.file.reference >docs/reference/campaign.md.new
	$(BIN)/python -m pgstrata.report.reference >docs/reference/results.md.new
	$(BIN)/python -m pgstrata.driver.reference >docs/reference/driver.md.new
	for page in cli campaign results driver; do mv docs/reference/$$page.md.new docs/reference/$$page.md; done

# Of the commit that is checked out; another linker and other targets than 'make setup' has.
dist: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dist]'
	@for target in x86_64 aarch64; do rustup target add $$target-unknown-linux-gnu; done
	$(BIN)/python packaging/make_dist.py

setup: $(VENV)/.ready

$(VENV)/.ready: $(SOURCES) $(VENV)/.packages
	@command -v cargo >/dev/null || { echo "error: no Rust toolchain: install rustup, then run this again"; exit 1; }
	@echo "Building the programs and installing pgstrata into $(VENV) (two to four minutes the first time)"
	PATH="$(abspath $(BIN)):$$PATH" \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# What checks and tests need beside pgstrata, and what it is built with.
$(VENV)/.packages: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $$($(BIN)/python packaging/requirements.py dev)
	@touch $@

# Debian ships Python without the module that puts pip into a new environment.
$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON): install it, or name another with 'make PYTHON=…' (3.11 or later)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -q && apt-get install -y -q python3-venv && $(PYTHON) -m venv $(VENV); \
	  else echo "error: $(PYTHON) has no venv module: apt-get install python3-venv"; exit 1; fi; }

clean:
	rm -rf $(VENV) target dist
