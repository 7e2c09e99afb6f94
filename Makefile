# The two commands: `make run` and `make test`. Everything they need is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(wildcard _native/*.pyx _native/*.pxd _native/*.h)

.PHONY: run test bench ext clean fuzz sanitize lint

$(VENV)/.installed: pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Bowstring needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24" "setuptools>=80" "cython>=3.3,<3.4" wheel
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[test,bench]"
	@touch $@ $(VENV)/.native

$(VENV)/.native: $(VENV)/.installed $(NATIVE)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

ext: $(VENV)/.native

run: ext
	$(BIN)/python -m bowstring demo

test: ext
	$(BIN)/python -m pytest

bench: ext
	$(BIN)/python -m bench

lint: ext
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy python/bowstring

clean:
	rm -rf build dist $(VENV) _native/*.c _native/*.so
