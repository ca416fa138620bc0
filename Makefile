# The doors of the project. Each target sets up what it needs on a fresh Debian or Ubuntu machine first.
.PHONY: help install demo test test-gate test-long test-agents coverage lint bench fuzz setup setup-tests setup-long clean

BIN := .venv/bin

# Versions are fixed, so that what a test says depends on the commit alone.
AGENTS := claude codex opencode
claude := @anthropic-ai/claude-code@2.1.327
codex := @openai/codex@0.169.0
opencode := opencode-ai@1.18.33

help:
	@echo "make install       set up, and link ~/.local/bin/belljar to this checkout"
	@echo "make demo          set up, and show Belljar at work"
	@echo "make test          set up, and run every check and every test that does not take long"
	@echo "make test-gate     install Docker, Podman, Chromium and an agent as well, and run a few of the others: what CI runs"
	@echo "make test-long     run all of the others"
	@echo "make test-agents   install claude, codex and opencode from npm below .cache, and test them in sandboxes"
	@echo "make coverage      run the tests of make test, and tell which lines no test has run"
	@echo "make lint          ruff, mypy and import-linter only"
	@echo "make bench         measure, and print tables (BENCH=--help lists the options)"
	@echo "make fuzz          fuzz the parsers for SECONDS (default 600)"
	@echo "make clean         remove what set-up and tests have made"

setup: .venv/.ready-use

setup-tests: .venv/.ready-tests

setup-long: .venv/.ready-long

.venv/.ready-%: pyproject.toml scripts/setup
	@scripts/setup $*

install: setup
	@scripts/install

demo: setup
	@scripts/demo

test: setup-tests
	@$(BIN)/python -m scripts.check --tests

test-gate: setup-long .cache/agents/.ready-codex
	@$(BIN)/python -m scripts.check --gate

test-long: setup-long
	@$(BIN)/python -m scripts.check --long

test-agents: setup-tests $(addprefix .cache/agents/.ready-,$(AGENTS))
	@$(BIN)/pytest -q tests/agents

.cache/agents/.ready-%: Makefile
	@npm install --no-fund --no-audit --cache .cache/npm --prefix .cache/agents $($*)
	@touch $@

coverage: setup-tests
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	@$(BIN)/coverage run -m pytest -q -n 3 --dist worksteal -m "not long"
	@$(BIN)/coverage combine --quiet && $(BIN)/coverage report --skip-covered --sort=cover

lint: setup-tests
	@$(BIN)/python -m scripts.check

bench: setup-long
	@$(BIN)/python -m bench $(BENCH)

fuzz: setup-tests
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),600)

clean:
	rm -rf .venv .cache .hypothesis
