# The two commands: `make run` and `make test`. Everything they need is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(wildcard _native/*.pyx _native/*.pxd _native/*.h)
JAVA := $(shell find python/bowstring/spark/java -name '*.java')
JAR := python/bowstring/spark/jars/bowstring-spark.jar

.PHONY: run test bench bench-compare soak ext clean fuzz sanitize lint

$(VENV)/.installed: pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Bowstring needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24" "setuptools>=80" "cython>=3.3,<3.4" wheel
	@# Without the extensions: pip compiles them where the next build cannot see that it is done.
	BOWSTRING_ONLY=none $(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[test,bench]"
	@touch $@

$(VENV)/.native: $(VENV)/.installed $(NATIVE)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

# A JDK of 17 or newer compiles the Spark engine; without one everything else is there.
$(VENV)/.jar: $(VENV)/.installed $(JAVA) setup.py
	@if command -v javac >/dev/null; then $(BIN)/python setup.py --quiet build_jar; \
	else echo "No javac: built without the jar of the Spark engine (Debian: apt-get install default-jdk-headless)"; fi
	@touch $@

ext: $(VENV)/.native $(VENV)/.jar

run: ext
	$(BIN)/python -m bowstring demo

# All of it, a worker for each of at most four cores (tests/conftest.py); `.venv/bin/pytest PATH` for some of it.
test: ext
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 4

# An hour of clients and restarts; SECONDS=60 for less.
soak: ext
	BOWSTRING_SOAK_SECONDS=$(or $(SECONDS),3600) $(BIN)/python -m pytest tests/system/test_soak.py

bench: ext
	$(BIN)/python -m bench

# What HEAD costs in instructions beside another revision: make bench-compare BASE=v0.1 [BENCH=regex]
bench-compare: $(VENV)/.installed
	@test -n "$(BASE)" || { echo "Which revision to compare with? make bench-compare BASE=v0.1"; exit 2; }
	$(BIN)/python -m bench.history compare "$(BASE)" $(if $(BENCH),--bench "$(BENCH)")

lint: ext
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy python/bowstring

clean:
	rm -rf build dist $(VENV) $(JAR) _native/*.c _native/*.so
