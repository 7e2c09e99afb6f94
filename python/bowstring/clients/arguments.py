"""Checks the arguments of public callables against their annotations, before anything is done with them.

An annotation says everything: `int`, `float | None`, `Literal["a", "b"]`, `Iterable[TopicPartition]`, and
ranges as in ranges.py. A wrong argument is a ConfigError that names it. Annotations that cannot be resolved
here, such as pyarrow's classes, and Any are not checked.
"""

from __future__ import annotations

import builtins
import collections.abc
import functools
import importlib
import inspect
import math
import numbers
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union

from bowstring.clients.errors import ConfigError
from bowstring.clients.ranges import Range

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# Elements of a collection that are checked: no step is taken for each record of many.
ELEMENTS_MAX = 1024
VALUE_TEXT_MAX = 80
# The likely intention behind a wrong value.
ADVICE = {
    "timeout": "; give a number of seconds, such as timeout=1.0",
    "value": ", such as bowstring.Json(schema)",
    "key": ", such as bowstring.Json(schema)",
    "max_records": "; give the time to wait as timeout=, in seconds",
}


class Kind(NamedTuple):
    """What a value must be.

    Attributes:
        fits: whether a value is that.
        words: what to give instead, such as "a whole number".
    """

    fits: Callable[[Any], bool]
    words: str


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)


WHOLE = Kind(_is_whole, "a whole number")
TEXT = Kind(lambda value: isinstance(value, str), "text (str)")
_SIMPLE: dict[Any, Kind] = {
    int: WHOLE,
    float: Kind(_is_number, "a number"),
    str: TEXT,
    bool: Kind(lambda value: isinstance(value, bool) or type(value).__name__ == "bool_", "True or False"),
    bytes: Kind(lambda value: isinstance(value, bytes | bytearray | memoryview), "bytes"),
    None: Kind(lambda value: value is None, "None"),
    type(None): Kind(lambda value: value is None, "None"),
}


def kind_of(annotation: Any) -> Kind | None:
    """Returns what values of an annotation must be, None when it says nothing that can be checked."""
    if annotation in (Any, object) or isinstance(annotation, TypeVar | str):
        return None
    if isinstance(annotation, collections.abc.Hashable) and annotation in _SIMPLE:
        return _SIMPLE[annotation]
    origin, given = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _COMPOSED:
        return _COMPOSED[origin](given)
    return _instance(annotation) if isinstance(annotation, type) else None


def _ranged(given: tuple[Any, ...]) -> Kind | None:
    kind, ranges = kind_of(given[0]), [each for each in given[1:] if isinstance(each, Range)]
    if kind is None or not ranges:
        return kind
    (bounds,) = ranges
    largest = "" if bounds.highest == math.inf else f" to {bounds.highest}"
    words = f"{kind.words} from {bounds.lowest}{largest}"
    return Kind(lambda value: kind.fits(value) and bounds.lowest <= value <= bounds.highest, words)


def _one_of(values: tuple[Any, ...]) -> Kind:
    words = [f'"{each}"' if isinstance(each, str) else repr(each) for each in values]
    text = f"{', '.join(words[:-1])} or {words[-1]}" if words[1:] else words[0]
    return Kind(lambda value: any(type(value) is type(each) and value == each for each in values), text)


def _union(given: tuple[Any, ...]) -> Kind | None:
    return _any_of([kind_of(each) for each in given])


def _any_of(kinds: list[Kind | None]) -> Kind | None:
    known = [each for each in kinds if each is not None]
    if len(known) < len(kinds):
        return None
    words = list(dict.fromkeys(each.words for each in known))
    return Kind(lambda value: any(each.fits(value) for each in known), " or ".join(words))


def _tuple(given: tuple[Any, ...]) -> Kind:
    if len(given) == 2 and given[1] is Ellipsis:
        return _sized(given)
    kinds = [kind_of(each) for each in given]

    def fits(value: Any) -> bool:
        if not isinstance(value, tuple | list) or len(value) != len(kinds):
            return False
        return all(kind is None or kind.fits(each) for kind, each in zip(kinds, value, strict=True))

    words = ", ".join("anything" if kind is None else kind.words for kind in kinds)
    return Kind(fits, f"a tuple ({words})")


def _mapping(of: tuple[Any, ...]) -> Kind:
    key, value = map(kind_of, of)

    def fits(given: Any) -> bool:
        if not isinstance(given, Mapping):
            return False
        items = _first(given.items())
        return all((key is None or key.fits(k)) and (value is None or value.fits(v)) for k, v in items)

    words = f"a mapping from {_words(key)} to {_words(value)}"
    return Kind(fits, words)


def _iterable(given: tuple[Any, ...]) -> Kind:
    return _collection(kind_of(given[0]), sized=False)


def _sized(given: tuple[Any, ...]) -> Kind:
    return _collection(kind_of(given[0]), sized=True)


def _collection(element: Kind | None, *, sized: bool) -> Kind:
    def fits(given: Any) -> bool:
        if isinstance(given, str | bytes | bytearray) or not hasattr(given, "__iter__"):
            return False
        if not isinstance(given, collections.abc.Collection):
            return not sized or hasattr(given, "__len__")  # elements of an iterator are consumed by iterating
        return element is None or all(element.fits(each) for each in _first(given))

    return Kind(fits, f"a list of {_words(element)}")


_COMPOSED: dict[Any, Callable[[tuple[Any, ...]], Kind | None]] = {
    Annotated: _ranged,
    Literal: _one_of,
    Union: _union,
    types.UnionType: _union,
    collections.abc.Callable: lambda given: Kind(callable, "a function"),
    tuple: _tuple,
    collections.abc.Mapping: _mapping,
    dict: _mapping,
    collections.abc.Iterable: _iterable,
    **dict.fromkeys((collections.abc.Collection, collections.abc.Sequence, collections.abc.Set), _sized),
    **dict.fromkeys((list, set, frozenset), _sized),
}


def _first(given: Iterable[Any]) -> list[Any]:
    return [each for _, each in zip(range(ELEMENTS_MAX), given, strict=False)]


def _words(kind: Kind | None) -> str:
    return "anything" if kind is None else kind.words


def _instance(cls: type) -> Kind:
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        hints = list(_hints(cls).values())
        shape = _tuple(tuple(hints))
        return Kind(shape.fits, f"a {cls.__name__} ({', '.join(cls._fields)})")
    if getattr(cls, "_is_protocol", False):
        names = {*inspect.get_annotations(cls), *vars(cls)}
        needed = [name for name in names if not name.startswith("_")]
        words = f"an object with {' and '.join(sorted(needed))}"
        return Kind(lambda value: all(hasattr(value, name) for name in needed), words)
    article = "an" if cls.__name__[0] in "AEIOU" else "a"
    return Kind(lambda value: isinstance(value, cls), f"{article} {cls.__name__}")


class _UnknownModule:
    """A module that only type checkers import, such as pyarrow: its classes say nothing."""

    def __getattr__(self, name: str) -> Any:
        return Any


class _Names(dict[str, Any]):
    """Names of an annotation; unknown ones, which only type checkers import, say nothing."""

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            return getattr(builtins, name)
        if name in _DEFERRED:
            return getattr(importlib.import_module(_DEFERRED[name]), name)
        return _UnknownModule() if name.islower() else Any


# Modules of names that are imported only for type checkers, because loading them takes long.
_DEFERRED = {
    "ValueFormat": "bowstring.clients.arrow.typed_values",
    "Kernel": "bowstring.kernels.function",
    "OnCommit": "bowstring.clients.consumer.coordinator",
}


def _hints(owner: Any) -> dict[str, Any]:
    """Returns the annotations of a function or class, each resolved on its own."""
    module = sys.modules[owner.__module__]
    names = _Names(vars(module))
    found = {}
    for name, annotation in owner.__annotations__.items():
        text = annotation.__forward_arg__ if isinstance(annotation, typing.ForwardRef) else annotation
        if isinstance(text, str):
            try:
                text = eval(text, {"__builtins__": {}}, names)
            except (AttributeError, TypeError, KeyError):
                text = Any
        found[name] = text
    return found


class _Checks(NamedTuple):
    """The kinds of a function's arguments: by place, by name, and of what `*arguments` takes."""

    places: list[tuple[str, Kind | None]]
    names: dict[str, Kind]
    rest: tuple[str, Kind | None] | None


def _checks_of(function: Callable[..., Any]) -> _Checks:
    hints = _hints(function)
    places: list[tuple[str, Kind | None]] = []
    names: dict[str, Kind] = {}
    rest = None
    for each in inspect.signature(function).parameters.values():
        kind = kind_of(hints.get(each.name, Any))
        if kind is not None and each.default is None and not kind.fits(None):
            kind = _any_of([kind, _SIMPLE[None]])
        if each.kind is each.VAR_POSITIONAL:
            rest = (each.name, kind)
        elif each.kind is not each.VAR_KEYWORD:
            if each.kind is not each.KEYWORD_ONLY:
                places.append((each.name, kind))
            if kind is not None:
                names[each.name] = kind
    return _Checks(places, names, rest)


def check_value(name: str, kind: Kind, value: Any) -> None:
    """Refuses a value that is not of its kind.

    Raises:
        ConfigError: the message names the argument.
    """
    if not kind.fits(value):
        text = repr(value)
        if len(text) > VALUE_TEXT_MAX:
            text = f"{text[:VALUE_TEXT_MAX]}… ({type(value).__name__})"
        raise ConfigError(f"{name} is {text}, it must be {kind.words}{ADVICE.get(name, '')}")


def argument_check(function: Callable[..., Any]) -> Callable[[tuple[Any, ...], Mapping[str, Any]], None]:
    """Returns what checks positional and keyword arguments of a call of `function`."""
    checks: _Checks | None = None

    def check(given: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        nonlocal checks
        if checks is None:  # not at import: annotations may name later definitions
            checks = _checks_of(function)
        for (name, kind), value in zip(checks.places, given, strict=False):
            if kind is not None:
                check_value(name, kind, value)
        for name, value in keywords.items():
            kind = checks.names.get(name)
            if kind is not None:
                check_value(name, kind, value)
        if checks.rest is not None and checks.rest[1] is not None:
            for value in given[len(checks.places) :]:
                check_value(checks.rest[0], checks.rest[1], value)

    return check


def checked(function: F) -> F:
    """Decorates a public function or method: its arguments are checked against their annotations."""
    check = argument_check(function)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def begin(*given: Any, **keywords: Any) -> Any:
            check(given, keywords)
            return await function(*given, **keywords)

        begin.is_checked = True  # type: ignore[attr-defined]
        return typing.cast("F", begin)

    @functools.wraps(function)
    def call(*given: Any, **keywords: Any) -> Any:
        check(given, keywords)
        return function(*given, **keywords)

    call.is_checked = True  # type: ignore[attr-defined]
    return typing.cast("F", call)


def checked_methods(*, hot: Iterable[str] = ()) -> Callable[[type[T]], type[T]]:
    """Returns a class decorator that checks the arguments of every public method, also of inherited ones.

    Args:
        hot: methods that are called for each record, and check by themselves.
    """
    left_out = frozenset(hot)

    def decorate(cls: type[T]) -> type[T]:
        for name in dir(cls):
            method = inspect.getattr_static(cls, name)
            public = name == "__init__" or not name.startswith("_")
            if not public or name in left_out or not inspect.isfunction(method):
                continue
            if not hasattr(method, "is_checked") and len(inspect.signature(method).parameters) > 1:
                setattr(cls, name, checked(method))
        return cls

    return decorate
