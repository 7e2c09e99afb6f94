"""Makes instances of a class out of decoded values."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any

from bowstring.clients.errors import MissingPackageError
from bowstring.values.class_schema import (
    LISTS,
    MAPS,
    ClassSchema,
    fields_of,
    is_pydantic,
    is_schema_class,
    unwrapped,
)

_REASONS_MAX = 5

Make = Callable[[dict[str, Any]], Any]


def instance_maker(schema: ClassSchema) -> Make:
    """Returns the function that makes an instance out of a decoded dict.

    A field that is null and may not be None is left out, so that the class's default counts. pydantic's
    models are made by `model_validate`, all other classes by `msgspec.convert`; both check the values, and
    their errors are ValueErrors that name the field.

    Raises:
        MissingPackageError: msgspec is not installed.
    """
    cls: Any = schema.cls
    if is_pydantic(cls):
        convert: Make = cls.model_validate
    else:
        try:
            import msgspec
        except ModuleNotFoundError as error:
            raise MissingPackageError("msgspec", "objects") from error

        def convert(value: dict[str, Any]) -> Any:
            return msgspec.convert(value, cls, dec_hook=_model)

    drop = _dropper(cls)
    if drop is None:
        return convert
    return lambda value: convert(drop(value))


def refusal(cls: type, error: Exception) -> str:
    """Returns why a class does not take a value, in one line.

    Args:
        error: what `instance_maker`'s function raised.
    """
    parts = error.errors() if hasattr(error, "errors") and is_pydantic(cls) else []
    found = [f"{'.'.join(str(step) for step in each['loc']) or 'the value'}: {each['msg']}" for each in parts]
    reason = "; ".join(found[:_REASONS_MAX]) or " ".join(str(error).split()) or type(error).__name__
    return f"the class {cls.__name__} does not take it: {reason}"


def _model(of: Any, value: Any) -> Any:
    """Makes what msgspec does not know: a pydantic model inside another class."""
    if isinstance(of, type) and is_pydantic(of):
        return of.model_validate(value)  # type: ignore[attr-defined]
    raise NotImplementedError(f"{of} cannot be made")


def _dropper(cls: type) -> Make | None:
    """Returns what leaves out null fields that may not be None; None if there are no such fields."""
    fields = fields_of(cls)
    names = frozenset(each.name for each in fields if not _is_optional(each.annotation))
    inner = {each.name: drop for each in fields if (drop := _dropper_within(each.annotation)) is not None}
    if not names and not inner:
        return None

    def dropped(value: dict[str, Any]) -> dict[str, Any]:
        found = {name: each for name, each in value.items() if each is not None or name not in names}
        for name, drop in inner.items():
            if found.get(name) is not None:
                found[name] = drop(found[name])
        return found

    return dropped


def _parts(annotation: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """Returns an annotation without Annotated and the like, its origin and its arguments."""
    annotation = unwrapped(annotation)
    origin, given = typing.get_origin(annotation), typing.get_args(annotation)
    return _parts(given[0]) if origin is typing.Annotated else (annotation, origin, given)


def _is_optional(annotation: Any) -> bool:
    """Returns whether a value may be None."""
    annotation, origin, given = _parts(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(_is_optional(each) for each in given)
    return annotation in (None, type(None))


def _dropper_within(annotation: Any) -> Callable[[Any], Any] | None:
    """Returns what `_dropper` does for the classes in list[X], dict[str, X] or X | None; None without any."""
    annotation, origin, given = _parts(annotation)
    if is_schema_class(annotation):
        return _dropper(annotation)
    if origin in (typing.Union, types.UnionType):
        return next((found for each in given if (found := _dropper_within(each)) is not None), None)
    if not given or origin not in (*LISTS, *MAPS):
        return None
    drop = _dropper_within(given[1 if origin in MAPS else 0])
    if drop is None:
        return None
    if origin in MAPS:
        return lambda value: {key: None if each is None else drop(each) for key, each in value.items()}
    return lambda value: [None if each is None else drop(each) for each in value]
