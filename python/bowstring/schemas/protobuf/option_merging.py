"""Merges options that set parts of one value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bowstring.schemas.protobuf.elements import Field, Message, Option, OptionValue, Word

if TYPE_CHECKING:
    from bowstring.schemas.protobuf.type_index import TypeIndex


class OptionMerging:
    """Merges options of one name, as Confluent's registry does when it normalizes.

    `(o).a = 1, (o).b = 2` becomes `(o) = {a: 1, b: 2}`.

    Args:
        index: the types that the file can name.
    """

    def __init__(self, index: TypeIndex):
        self._index = index

    def merged(self, name: str, options: list[Option]) -> list[Option]:
        """Returns options of one name, merged if the extension of this name is not repeated."""
        extension = self._index.extension_named(name)
        if extension is None or extension.label == "repeated" or len(options) == 1:
            return options
        merged = options[0]
        for option in options[1:]:
            if isinstance(merged.value, dict) and isinstance(option.value, dict):
                value = self._maps(extension, merged.value, option.value)
                merged = Option(option.name, "map", value, option.parenthesized)
            else:
                merged = option
        return [merged]

    def _maps(
        self, field: Field, first: dict[str, OptionValue], second: dict[str, OptionValue]
    ) -> dict[str, OptionValue]:
        message = self._message_of(field)
        merged = dict(first)
        for name, value in second.items():
            if name in merged:
                inner = None if message is None else _field_named(message, name)
                merged[name] = self._values(inner, merged[name], value)
            else:
                merged[name] = value
        return merged

    def _values(self, field: Field | None, first: OptionValue, second: OptionValue) -> OptionValue:
        if field is not None and field.label != "repeated":
            if isinstance(first, dict) and isinstance(second, dict) and self._message_of(field) is not None:
                return self._maps(field, first, second)
            return second
        found: list[OptionValue] = []
        seen = set()
        for value in [
            *(first if isinstance(first, list) else [first]),
            *(second if isinstance(second, list) else [second]),
        ]:
            if (key := _key(value)) not in seen:
                seen.add(key)
                found.append(value)
        return found

    def _message_of(self, field: Field) -> Message | None:
        found = self._index.find_type(field.type, "")
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


def _key(value: OptionValue) -> object:
    """Returns something to compare values by."""
    if isinstance(value, dict):
        return "map", tuple(sorted((name, _key(each)) for name, each in value.items()))
    if isinstance(value, list):
        return "list", tuple(_key(each) for each in value)
    return value
