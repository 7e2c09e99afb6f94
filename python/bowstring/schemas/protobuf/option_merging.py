"""Merges options that set parts of one value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring.schemas.protobuf.elements import Field, Message, Option, OptionValue, Word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bowstring.schemas.protobuf.type_index import TypeIndex


class OptionMerging:
    """Merges options of one name, as Confluent's registry does when it normalizes.

    `(o).a = 1, (o).b = 2` becomes `(o) = {a: 1, b: 2}`.

    Args:
        index: the types that the file can name.
    """

    def __init__(self, index: TypeIndex):
        self._index = index

    def merged(self, name: str, options: Sequence[Option], scope: str) -> Sequence[Option]:
        """Returns options of one name, merged if the extension of this name is not repeated.

        Args:
            name: of the options.
            options: all of this name.
            scope: where they stand. As in Confluent's registry, types of their fields are resolved there.
        """
        extension = self._index.extension_named(name)
        if extension is None or extension.label == "repeated" or len(options) == 1:
            return options
        last = options[-1]
        value = self._singular(extension, [option.value for option in options], scope)
        return [Option(name, "map" if isinstance(value, dict) else last.kind, value, last.parenthesized)]

    def _singular(self, field: Field, values: list[OptionValue], scope: str) -> OptionValue:
        """Returns the value of a field that is set more than once: the last, or messages merged."""
        start = max((at + 1 for at, value in enumerate(values) if not isinstance(value, dict)), default=0)
        merged = [value for value in values[start:] if isinstance(value, dict)]
        if not merged:
            return values[-1]
        message = self._message_of(field, scope)
        named: dict[str, list[OptionValue]] = {}
        for each in merged:
            for name, value in each.items():
                named.setdefault(name, []).append(value)
        return {name: self._merged_values(message, name, found, scope) for name, found in named.items()}

    def _merged_values(
        self, message: Message | None, name: str, values: list[OptionValue], scope: str
    ) -> OptionValue:
        if len(values) == 1:
            return values[0]
        field = None if message is None else _field_named(message, name)
        if field is None or field.label == "repeated":
            return _distinct(values)
        if self._message_of(field, scope) is None:
            return values[-1]
        return self._singular(field, values, scope)

    def _message_of(self, field: Field, scope: str) -> Message | None:
        found = self._index.find_type(field.type, scope)
        return found.declared if found is not None and isinstance(found.declared, Message) else None


def as_map(option: Option) -> Option:
    """Returns an option with a path, `(o).a.b = 1`, as one with a message: `(o) = {a: {b: 1}}`."""
    if not isinstance(option.value, Option):
        return option
    return Option(option.name, "map", _path_map(option.value), option.parenthesized)


def _path_map(option: Option) -> dict[str, OptionValue]:
    value = option.value
    if isinstance(value, Option):
        value = _path_map(value)
    elif option.kind in ("boolean", "enum", "number"):
        assert isinstance(value, str)
        value = Word(option.kind, value)
    return {option.name: value}


def _field_named(message: Message, name: str) -> Field | None:
    fields = [*message.fields, *(field for oneof in message.oneofs for field in oneof.fields)]
    return next((field for field in fields if field.name == name), None)


def _distinct(values: list[OptionValue]) -> list[OptionValue]:
    """Returns the values of lists and those between them, each once."""
    found: dict[object, OptionValue] = {}
    for value in values:
        for each in value if isinstance(value, list) else [value]:
            found.setdefault(_key(each), each)
    return [*found.values()]


def _key(value: OptionValue) -> object:
    """Returns something to compare values by."""
    if isinstance(value, dict):
        return "map", tuple(sorted((name, _key(each)) for name, each in value.items()))
    if isinstance(value, list):
        return "list", tuple(_key(each) for each in value)
    return value
