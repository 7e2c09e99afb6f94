"""Converts members for the describe APIs of all group types."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

T = TypeVar("T")

_AT_ONCE: Final = 100


def converted(members: Sequence[T], convert: Callable[[T], Any]) -> Any:
    """Returns the members as an answer's array. Many are converted only while the answer is encoded, so that
    no large group keeps the control thread busy.

    Args:
        members: The fields of each member for the answer, as they are now: they must not change later.
        convert: Returns the element of the array.
    """
    elements = (convert(member) for member in members)
    return elements if len(members) > _AT_ONCE else list(elements)
