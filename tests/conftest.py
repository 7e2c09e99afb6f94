"""How `make test` runs the suite: groups of tests side by side, a worker of pytest-xdist for each of at most four cores.

A group shares fixtures that are dear, as a JVM is, so it stays with one worker. Most tests wait more than they
compute, or are one process that computes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

TESTS: Final = Path(__file__).parent
# Long ones first; what begins together differs in what it needs: JVMs here, a compiler there.
TOGETHER: Final = ("spark", "sanitize", "conformance", "system", "simulation", "fuzz")


def group_of(path: Path) -> str:
    """The name of the group that a test file belongs to: a directory, and each directory of unit tests."""
    subject, *below = path.relative_to(TESTS).parts[:-1]
    return subject if subject in TOGETHER else "/".join((subject, *below[:1]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the groups in order, in the workers of pytest-xdist only."""
    if hasattr(config, "workerinput"):
        places = {name: place for place, name in enumerate(TOGETHER)}
        items.sort(key=lambda item: places.get(group_of(item.path), len(TOGETHER)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Gives a worker one group after the other, in their order and not by the number of their tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        # Not by marks: pytest-xdist 3.8 writes their names into node ids, and pytest 9.2 keeps none of it.
        def _split_scope(self, nodeid: str) -> str:
            return group_of(config.rootpath / nodeid.partition("::")[0])

    config.option.loadscopereorder = False
    return Groups(config, log)
