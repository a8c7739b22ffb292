# Two commands: `make play` and `make test`. Each sets up its own virtual environment from the lock file.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TEST_WORKERS ?= 2
# CPU=1: torch without its CUDA libraries, for machines without an NVIDIA GPU.
CPU ?=
TORCH_CPU := --index-url https://download.pytorch.org/whl/cpu "$$(grep -o '^torch==[^ ]*' requirements.lock)"
SIZE := $(if $(CPU),about 1.3 GB,about 5.6 GB on Linux with torch's CUDA libraries or 1.3 GB without them (make play CPU=1))

# requirements.hashed.lock installs only files of PyPI whose hashes it lists: make setup LOCK=requirements.hashed.lock
LOCK ?= requirements.lock

.PHONY: help play test check lint docs format setup lock vulnerabilities clean

help:
	@echo "make play    train an agent on a mini game and show its score (CPU, a few minutes); CPU=1: a small install"
	@echo "make test    all tests"
	@echo "make check   format, lint, types and the fast tests"
	@echo "make docs    the documentation as a site, in build/site"
	@echo "make format  format and fix what can be fixed"
	@echo "make lock    pin the newest versions of everything (then run make test)"
	@echo "make vulnerabilities  look the pinned versions up among those that are known to be vulnerable"

play: $(READY)
	$(BIN)/megareward play

test: $(READY)
	$(BIN)/python -m pytest -n $(TEST_WORKERS)

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint
	$(BIN)/python -m pytest -n $(TEST_WORKERS) -m "not learning and not slow"

# Pages are made from docs/ and from docstrings, which are read and not imported: no torch is needed here.
docs: build/docs/.ready
	NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --strict
	@echo "Open build/site/index.html."

build/docs/.ready: requirements-docs.lock
	$(PYTHON) -m venv build/docs
	build/docs/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.lock
	@touch $@

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(READY)

# Installed once, and again when the lock or the package's own metadata changes.
$(READY): $(LOCK) pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 14) else f"Python 3.11 to 3.13 is needed, this is {sys.version.split()[0]}; try make PYTHON=python3.11")'
	@echo "Installing Python packages into $(VENV), once: $(SIZE). Nothing outside this folder is changed."
	$(PYTHON) -m venv $(VENV)
	$(if $(CPU),$(BIN)/python -m pip install --disable-pip-version-check $(TORCH_CPU))
	$(BIN)/python -m pip install --disable-pip-version-check -r $(LOCK)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet torch==2.13.0 "setuptools>=77"
	build/lock/bin/python -m pip install --quiet --editable ".[dev]"
	( echo "# Written by make lock. torch is pinned to a release that has a CPU build; the package accepts torch >= 2.6."; \
	  build/lock/bin/python -m pip freeze --all --exclude-editable --exclude pip | sed 's/+cpu$$//' ) > requirements.lock
	build/lock/bin/python -m pip install --quiet uv
	build/lock/bin/uv pip compile pyproject.toml --extra dev --constraint requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-annotate --quiet --no-config \
	  --custom-compile-command "make lock" --output-file requirements.hashed.lock

vulnerabilities:
	rm -rf build/audit && $(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet pip-audit
	build/audit/bin/pip-audit --requirement requirements.hashed.lock --require-hashes --disable-pip --strict

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
