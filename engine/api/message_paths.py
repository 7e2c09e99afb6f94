"""Reads what a message has at a path of field names, such as ``topics.name``."""

from collections.abc import Iterator
from typing import Any


def found_at(message: Any, path: str) -> Iterator[Any]:
    """Yields the values at a path, in the order of the message; the elements of lists one by one. What is
    null is left out.
    """
    name, _, rest = path.partition(".")
    value = getattr(message, name)
    if value is None:
        return
    if isinstance(value, str | bytes | int):
        yield value
        return
    for each in value if hasattr(value, "__iter__") else (value,):
        if rest:
            yield from found_at(each, rest)
        elif each is not None:
            yield each
