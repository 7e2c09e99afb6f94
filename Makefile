# The two commands: `make run` and `make test`. Everything they need is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(shell find _native -name '*.pyx' -o -name '*.pxd' -o -name '*.h')
JAVA := $(shell find python/bowstring/spark/java -name '*.java')
JAR := python/bowstring/spark/jars/bowstring-spark.jar

.PHONY: run test check docs wheels simulate bench bench-clients bench-compare soak ext clean lint stubs coverage

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

# A JDK of 17 or newer compiles the Spark engine; without one everything else is there. Its manifest has the version.
$(VENV)/.jar: $(VENV)/.installed $(JAVA) setup.py python/bowstring/version.py
	@if command -v javac >/dev/null; then $(BIN)/python setup.py --quiet build_jar; \
	else echo "No javac: built without the jar of the Spark engine (Debian: apt-get install default-jdk-headless)"; fi
	@touch $@

ext: $(VENV)/.native $(VENV)/.jar

run: ext
	$(BIN)/python -m bowstring demo

# Before every commit, in less than three minutes: linters, types, and the unit tests that start no JVM, compile nothing
# and run no command of the command line. What it leaves out is named by its path.
NOT_QUICK := bench cli demo kernels protocol/test_java.py requests/test_time_slices.py log/test_kafka_reads_it.py \
	clients/test_examples.py clients/test_typing.py project/test_coverage.py project/test_native_build.py \
	test_pytest_plugin.py test_suite.py
check: lint
	$(BIN)/python -m pytest -q --numprocesses auto tests/unit $(addprefix --ignore=tests/unit/,$(NOT_QUICK)) \
		--deselect tests/unit/test_tree.py::test_tools_agree

# All of it, two workers for each core (tests/conftest.py), and what failed once more, alone (tests/suite.py); at
# the end it lists the slowest thirty;
# `.venv/bin/pytest PATH` for some of it.
test: ext
	$(BIN)/python -m tests.suite --numprocesses auto

# An hour of clients and restarts, one of clusters in trouble, one of administrators at cross purposes, and one of
# power cuts under a real file system (as root); SECONDS=60 for less.
soak: ext
	BOWSTRING_SOAK_SECONDS=$(or $(SECONDS),3600) $(BIN)/python -m pytest tests/system/test_soak.py \
		tests/system/test_troubled_cluster.py tests/system/test_admin_chaos.py tests/system/test_power_cut.py tests/system/history

# Random work, faults, kills and power cuts over the whole broker's storage, and over staged tails; a quorum, whole
# clusters under bad networks and disks, and whole nodes under a loop of the seed: thousands of seeds.
simulate: ext
	$(BIN)/python -m tests.simulation.storage --from $(or $(FROM),1) --seeds $(or $(SEEDS),5000)
	$(BIN)/python -m tests.simulation.staged --from $(or $(FROM),1) --seeds $(or $(SEEDS),5000)
	$(BIN)/python -m tests.simulation.quorum --from $(or $(FROM),1) --seeds $(or $(SEEDS),10000)
	$(BIN)/python -m tests.simulation.cluster --from $(or $(FROM),1) --seeds $(or $(SEEDS),10000)
	$(BIN)/python -m tests.simulation.nodes --from $(or $(FROM),1) --seeds $(or $(SEEDS),10000)

# Ends with the chart of README: docs/figures.svg, from the newest reports.
bench: ext
	$(BIN)/python -m bench
	$(BIN)/python -m bench.chart

# The Python clients beside each other, confluent-kafka with its defaults and tuned: the table in README.
bench-clients: ext
	$(BIN)/python -m bench --only arrow-produce send arrow-consume poll-json poll-avro local-read --name clients

# What HEAD costs in instructions beside another revision: make bench-compare BASE=v0.1 [BENCH=regex]
bench-compare: $(VENV)/.installed
	@test -n "$(BASE)" || { echo "Which revision to compare with? make bench-compare BASE=v0.1"; exit 2; }
	$(BIN)/python -m bench.regressions compare "$(BASE)" $(if $(BENCH),--bench "$(BENCH)")

# Wheels for every supported CPython found here, into dist/wheels; they need neither a compiler nor a JDK. ALL=1: fails
# where one is missing.
wheels: ext
	$(BIN)/python -m deploy.wheels $(if $(ALL),--all)

# The docs site, into build/site; a dead link fails. BOWSTRING_REPOSITORY=https://github.com/owner/name links to code.
docs: ext $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/.docs: $(VENV)/.installed
	BOWSTRING_ONLY=none $(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[docs]"
	@touch $@

# Formatting, types, and the style of the native sources.
lint: ext
	$(BIN)/python -m ruff check . && $(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy python/bowstring bench deploy docs tests
	$(BIN)/python -m tests.native_lint

# The hand-written stubs of the native modules against what the modules have.
stubs: ext
	$(BIN)/python -m tests.native_stubs

# Which lines of Python and native code the tests run, as a report in build/coverage: built and run in a copy of the tree.
coverage: $(VENV)/.installed
	$(BIN)/python -m tests.coverage_report $(or $(TESTS),tests/unit)

clean:
	rm -rf build dist $(VENV) $(JAR)
	find _native -name '*.c' -delete -o -name '*.so' -delete
