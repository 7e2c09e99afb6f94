"""Binds functions to the parts of a node that they use."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from bowstring.engine.requests.request import Request
from bowstring.protocol.schema import Response

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
"""Answers a request; its parts are bound."""

HandlerOf = Callable[[int], Handler]
"""Returns the handler of an API key."""


def stated(function: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the names of the parts that a function states: those of its keyword-only parameters."""
    code = function.__code__
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def bound(function: Callable[..., Any], part: Callable[[str], object]) -> Callable[..., Any]:
    """Returns a function with the parts that it states; its callers give the other arguments.

    The names come from the code object, because `inspect` would be imported for this alone. Bind a function
    before its first call, not at start: parts may be created when they are asked for.

    Args:
        part: Returns the part of a name. A part is the same object from now on until the node stops.
    """
    return partial(function, **{name: part(name) for name in stated(function)})
