# `make` alone lists the targets. Everything runs inside .venv, which is made on first use.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Tests start many processes: without bytecode each of them would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo check check-slow lint test docs bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml lab/pyproject.toml
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once, a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev --editable . --editable lab
	@touch $@

demo: $(READY) ## make a fictional hospital table, release a private synthetic copy of it
	@$(BIN)/weft demo
	@$(BIN)/weft demo --related

check: lint test ## what CI runs: lint, types, import contracts, tests

lint: $(READY) ## ruff, mypy strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(READY) ## the default test suite
	$(BIN)/pytest -n auto -m "not slow"

check-slow: $(READY) ## the long statistical runs
	$(BIN)/pytest -n auto -m slow

docs: $(READY) ## build the site into build/site; a broken link fails
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html"

bench: $(READY) ## print the speed and memory figures
	@$(BIN)/weft bench timings

clean: ## remove the environment and caches
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
