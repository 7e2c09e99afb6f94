"""Schedules `make test`: groups of tests in parallel, with more pytest-xdist workers than cores.

Most tests wait more than they compute, so two workers share a core. A file is a group of its own, unless it shares
fixtures that are expensive, as a JVM is. Long groups come first, so that no worker is left alone with one in the end.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hypothesis
import pytest

from tests.support.examples import examples

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

# On a loaded machine, examples have no deadline.
hypothesis.settings.register_profile(
    "bowstring",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
)
hypothesis.settings.load_profile("bowstring")

# Programs that tests start by the thousand, and the workers of pytest-xdist, need not compile every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Spark's JVMs are too short-lived here for their second compiler to pay off.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto")

TESTS: Final = Path(__file__).parent
WORKERS_A_CORE: Final = 2
# Each worker may have its own JVMs and brokers.
WORKERS_MAX: Final = 8
# Beginnings of paths below tests/, long groups first. Files with the same beginning are one group, by the
# longest match; files without one come last, each as a group.
TOGETHER: Final = (
    "sanitize",
    "conformance/test_",
    "spark/test_",
    "spark/test_recovery",
    "install",
    "conformance/differential",
    "spark/test_checkpoint",
    "spark/test_python",
    "spark/test_source",
    "unit/bench/test_smoke",
    "unit/test_tree",
    "unit/project",
    "system/console",
    "system/test_kill_nine",
    "system/test_mixed",
    "unit/requests/test_time_slices",
    "unit/cli/test_commands",
    "unit/bench/test_kreps",
    "conformance/test_java_tools",
    "conformance/test_takeover",
    "simulation/test_storage",
    "simulation/test_staged_tails",
    "simulation/test_staged_crashes",
    "simulation/test_cluster",
    "simulation/test_quorum",
    "simulation/test_nodes_commit",
    "simulation/test_nodes_os",
    "simulation/test_nodes",
    "system/test_power_cut",
    "system/test_cluster_under_load",
    "system/test_cluster_foreground",
    "system/test_troubled_cluster",
    "system/test_admin_chaos",
    "system/test_many_consumers",
    "system/test_descriptors",
    "simulation/test_failing_operations",
    "simulation/test_commit_crashes",
    "system/test_serve",
    "fuzz/test_spark_decode_fuzz",
    "system/bad_input/test_million",
    "system/test_power_loss",
    "unit/bench/test_suites",
    "system/test_stress",
    "fuzz/test_frame_fuzz",
    "unit/kernels",
    "unit/test_suite",
    "unit/demo",
    "simulation/test_metadata_crashes",
    "unit/rest/test_answers",
    "unit/pages",
)


@pytest.fixture(autouse=True)
def log_as_imported(request: pytest.FixtureRequest) -> Iterator[None]:
    """Restores logging, which a command sets, a simulator switches off, or PySpark turns into JSON.

    PySpark gives its own format to every handler that a logger of its gets, and its loggers do not propagate once an
    error was made: pytest adds its handlers to such loggers itself.
    """
    _forget_settings_of_the_log(request.config)
    yield
    _forget_settings_of_the_log(request.config)


def _forget_settings_of_the_log(config: pytest.Config) -> None:
    plugin = config.pluginmanager.get_plugin("logging-plugin")
    if plugin is not None:
        for handler in (plugin.caplog_handler, plugin.report_handler):
            handler.setFormatter(plugin.formatter)
    logging.disable(logging.NOTSET)
    for other in logging.root.manager.loggerDict.values():
        if isinstance(other, logging.Logger) and other.name.endswith("QueryContextLogger"):
            other.propagate = True
    logger = logging.getLogger("bowstring")
    logger.disabled = False
    logger.setLevel(logging.NOTSET)
    if not logger.propagate:
        logger.handlers.clear()
        logger.propagate = True


def group_of(path: Path) -> str:
    """Returns the name of the group that a test file belongs to."""
    name = path.relative_to(TESTS).with_suffix("").as_posix()
    return max((begin for begin in TOGETHER if name.startswith(begin)), key=len, default=name)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Returns the number of workers for `--numprocesses auto`."""
    return min(WORKERS_MAX, WORKERS_A_CORE * len(os.sched_getaffinity(0)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts the groups, in pytest-xdist workers only."""
    if hasattr(config, "workerinput"):
        places = {name: place for place, name in enumerate(TOGETHER)}
        items.sort(key=lambda item: places.get(group_of(item.path), len(TOGETHER)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Assigns groups to workers one after the other, in their order and not by their number of tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        # Not by marks: pytest-xdist 3.8 writes their names into node ids, and pytest 9.2 keeps none of them.
        def _split_scope(self, nodeid: str) -> str:
            return group_of(config.rootpath / nodeid.partition("::")[0])

        def _assign_work_unit(self, node: Any) -> None:
            # A worker begins a group's last test once it has the next one. Behind a long group, that is one of
            # a short group, not of a long one that another worker could begin.
            given = self.assigned_work.get(node, {})
            if any(group in TOGETHER and not all(done.values()) for group, done in given.items()):
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

        def remove_node(self, node: Any) -> str | None:
            # When a worker crashes, pytest-xdist 3.8 also gives groups that are done to others, which then wait for
            # tests for ever; and it runs the test that crashed once more.
            left = {
                group: tests
                for group, tests in self.assigned_work.pop(node).items()
                if not all(tests.values())
            }
            if not left:
                return None
            running = next(iter(left.values()))
            crashed: str = next(test for test, done in running.items() if not done)
            running[crashed] = True
            self.workqueue.update((group, tests) for group, tests in left.items() if not all(tests.values()))
            for other in self.assigned_work:
                self._reschedule(other)
            return crashed

    config.option.loadscopereorder = False
    return Groups(config, log)
