# make train   set everything up and train the default network on data inside the package
# make test    set everything up and run the tests
# make check   format, lint and types

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: train test test-slow test-gpu check format setup clean

train: $(READY)
	$(BIN)/firstspike train

test: $(READY)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4

test-slow: $(READY)
	$(BIN)/python -m pytest -m "slow and not gpu"

test-gpu: $(READY)
	$(BIN)/python -m pytest -m gpu

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(READY)

$(READY): pyproject.toml constraints.txt $(wildcard native/pyproject.toml native/CMakeLists.txt native/src/*)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "firstspike needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[logs]" --group dev
	@if command -v c++ >/dev/null; then $(BIN)/python -m pip install --quiet ./native || echo "The native engine could not be built; firstspike works without it."; \
	else echo "There is no C++ compiler, so the native engine is left out; firstspike works without it."; fi
	@touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
