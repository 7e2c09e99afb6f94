"""Makes instances of a class out of decoded values."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

from bowstring.clients.errors import MissingPackageError
from bowstring.values.class_schema import ClassSchema, fields_of, is_pydantic, is_schema_class

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
    optional = []
    inner: dict[str, Make] = {}
    for field in fields_of(cls):
        kinds = typing.get_args(field.annotation)
        if type(None) not in kinds and field.annotation is not None:
            optional.append(field.name)
        below = _class_in(field.annotation)
        drop = None if below is None else _dropper(below)
        if drop is not None:
            inner[field.name] = _within(field.annotation, drop)
    if not optional and not inner:
        return None
    names = frozenset(optional)

    def dropped(value: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(value, dict):
            return value
        found = {k: v for k, v in value.items() if v is not None or k not in names}
        for name, drop in inner.items():
            if name in found and found[name] is not None:
                found[name] = drop(found[name])
        return found

    return dropped


def _class_in(annotation: Any) -> type | None:
    """Returns the class in list[X], dict[str, X] or X | None."""
    if is_schema_class(annotation):
        return typing.cast("type", annotation)
    return next(
        (found for each in typing.get_args(annotation) if (found := _class_in(each)) is not None), None
    )


def _within(annotation: Any, drop: Make) -> Make:
    def each(value: Any) -> Any:
        if isinstance(value, list):
            return [each(item) for item in value]
        if isinstance(value, dict) and not is_direct:
            return {key: each(item) for key, item in value.items()}
        return drop(value)

    is_direct = not any(arg is dict for arg in _origins(annotation))
    if is_direct:
        return each
    return lambda value: {key: _dropped_item(drop, item) for key, item in value.items()}


def _dropped_item(drop: Make, item: Any) -> Any:
    return [drop(each) for each in item] if isinstance(item, list) else drop(item)


def _origins(annotation: Any) -> list[Any]:
    found = [typing.get_origin(annotation)]
    for each in typing.get_args(annotation):
        found += _origins(each)
    return found
