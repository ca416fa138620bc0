# The doors of the project. Each target sets up what it needs on a fresh Debian or Ubuntu machine first.
.PHONY: help demo test lint bench fuzz setup clean

BIN := .venv/bin

help:
	@echo "make demo    set up, and show Belljar at work"
	@echo "make test    set up, and run every check and test"
	@echo "make lint    ruff, mypy and import-linter only"
	@echo "make bench   measure, and print tables (BENCH=--help lists the options)"
	@echo "make fuzz    fuzz the parsers for SECONDS (default 600)"
	@echo "make clean   remove what set-up and tests have made"

setup: .venv/.ready

.venv/.ready: pyproject.toml scripts/setup
	@scripts/setup

demo: setup
	@scripts/demo

test: setup
	@$(BIN)/python scripts/check.py --tests

lint: setup
	@$(BIN)/python scripts/check.py

bench: setup
	@$(BIN)/python -m bench $(BENCH)

fuzz: setup
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),600)

clean:
	rm -rf .venv .cache .hypothesis
