"""How `make test` runs the suite: groups of tests side by side, a worker of pytest-xdist for each core.

A group shares fixtures that are dear, as a JVM is, so it stays with one worker. Most tests wait more than they
compute, or are one process that computes.
"""

from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
# Long ones first (make test tells pytest-xdist to leave their order); what begins together differs in what it needs: JVMs here, a compiler there.
TOGETHER: Final = ("spark", "sanitize", "conformance", "system", "simulation", "fuzz")


def group_of(path: Path) -> str:
    """The name of the group that a test file belongs to: a directory, and each directory of unit tests."""
    subject, *below = path.relative_to(TESTS).parts[:-1]
    return subject if subject in TOGETHER else "/".join((subject, *below[:1]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tells pytest-xdist the groups; in its workers only, their order."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item.path)))
    if hasattr(config, "workerinput"):
        places = {name: place for place, name in enumerate(TOGETHER)}
        items.sort(key=lambda item: places.get(group_of(item.path), len(TOGETHER)))
