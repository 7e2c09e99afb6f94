"""Lists the assignors of the coordinator by name."""

from collections.abc import Iterable
from typing import Final

from bowstring.engine.groups.consumer import range_assignor, uniform_assignor
from bowstring.engine.groups.modern.assignor import Assignor

ASSIGNORS: Final[dict[str, Assignor]] = {
    uniform_assignor.NAME: uniform_assignor.assign,
    range_assignor.NAME: range_assignor.assign,
}
"""To add an assignor, add a row."""

_KAFKAS_CLASSES: Final = {
    f"org.apache.kafka.coordinator.group.assignor.{name.title()}Assignor": name for name in ASSIGNORS
}


def enabled_assignors(configured: Iterable[str]) -> list[str]:
    """Returns the names of the assignors in group.consumer.assignors, which may name Kafka's classes. Classes
    of others cannot run here; if nothing is left, all assignors are enabled.
    """
    names = [_KAFKAS_CLASSES.get(name, name) for name in configured]
    return [name for name in names if name in ASSIGNORS] or list(ASSIGNORS)
