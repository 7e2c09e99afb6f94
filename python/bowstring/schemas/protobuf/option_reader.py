"""Reads options and their values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bowstring.schemas.protobuf.elements import Option, OptionKind, OptionValue, Word
from bowstring.schemas.protobuf.proto_reader import SPACE, WORD_MAX

if TYPE_CHECKING:
    from bowstring.schemas.protobuf.proto_reader import ProtoReader

# An option that is one word or one string, in one step.
_PLAIN_OPTION = re.compile(
    rf"{SPACE}(?:\(([A-Za-z_.][A-Za-z0-9_.]*+)\)|([A-Za-z_][A-Za-z0-9_.]*+))[ \t]*+=[ \t]*+"
    r"(?:([A-Za-z_][A-Za-z0-9_]*+)|(-?[0-9][A-Za-z0-9_.\-]*+)|\"([^\"\\\n]*+)\")[ \t\r\n]*+([,\]])"
)
# Of messages and lists in the value of an option, and of names in a path to a field.
DEPTH_MAX = 64


class OptionReader:
    """Reads what stands in `[…]` behind a field or behind the word `option`.

    Args:
        reader: the text; stands before the option.
    """

    __slots__ = ("_depth", "_reader")

    def __init__(self, reader: ProtoReader):
        self._reader = reader
        self._depth = 0

    def options(self) -> list[Option]:
        """Returns the options in square brackets; [] if none stand there."""
        reader = self._reader
        found: list[Option] = []
        if not reader.take_if("["):
            return found
        while True:
            self._plain_options(found)
            if found and reader.text[reader.position - 1] == "]":
                return found
            found.append(self.option("="))
            if reader.take_if("]"):
                return found
            reader.require(",")

    def _plain_options(self, options: list[Option]) -> None:
        """Reads the options that are one word or one string, and the bracket behind the last."""
        reader = self._reader
        while (found := _PLAIN_OPTION.match(reader.text, reader.position)) is not None:
            bracketed, name, word, number, string, end = found.groups()
            if len(found.group()) > WORD_MAX:
                return
            reader.count()
            reader.position = found.end()
            kind: OptionKind = "string"
            if word is not None:
                kind = "boolean" if word in ("true", "false") else "enum"
            elif number is not None:
                kind = "number"
            options.append(
                Option(bracketed or name, kind, word or number or string or "", bracketed is not None)
            )
            if end == "]":
                return

    def option(self, separator: str) -> Option:
        """Returns one option.

        Args:
            separator: what stands between name and value: "=", or ":" inside a message.
        """
        reader = self._reader
        opening = reader.peek()
        name = reader.name()
        if opening == "[":
            name = f"[{name}]"
        path: list[str] = []
        while reader.take_if("."):
            path.append(reader.name(keep_brackets=True, dots=False))
            if len(path) > DEPTH_MAX:
                raise reader.error(f"the option {name} has a path of more than {DEPTH_MAX} names")
        # Text format: a message needs no colon before it.
        if not (separator == ":" and reader.peek() == "{"):
            reader.require(separator)
        kind, value = self._value()
        for part in reversed(path):
            bare = part[1:-1] if part[0] == "(" else part
            value = Option(bare, kind, value, part[0] == "(")
            kind = "option"
        return Option(name, kind, value, opening == "(")

    def _value(self) -> tuple[OptionKind, OptionValue]:
        reader = self._reader
        reader.count()
        first = reader.peek()
        if first in "{[":
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise reader.error(f"the value is nested more than {DEPTH_MAX} deep")
            found: tuple[OptionKind, OptionValue] = (
                ("map", self._message()) if first == "{" else ("list", self._list())
            )
            self._depth -= 1
            return found
        if first in "\"'":
            return "string", reader.quoted()
        word = reader.word()
        if first in tuple("-0123456789"):
            return "number", word
        return ("boolean" if word in ("true", "false") else "enum"), word

    def _message(self) -> dict[str, OptionValue]:
        reader = self._reader
        reader.require("{")
        found: dict[str, OptionValue] = {}
        while not reader.take_if("}"):
            option = self.option(":")
            name, value = option.name, _inner(option.kind, option.value)
            previous = found.get(name)
            if isinstance(value, Option):
                # A path inside a message: `name.rest: value`.
                if not isinstance(previous, dict):
                    found[name] = previous = {}
                previous[value.name] = value.value
            elif previous is None:
                found[name] = value
            else:
                if not isinstance(previous, list):
                    found[name] = previous = [previous]
                previous.extend(value if isinstance(value, list) else [value])
            _ = reader.take_if(",") or reader.take_if(";")
        return found

    def _list(self) -> list[OptionValue]:
        reader = self._reader
        reader.require("[")
        found: list[OptionValue] = []
        while not reader.take_if("]"):
            found.append(_inner(*self._value()))
            if not reader.take_if(",") and reader.peek() != "]":
                raise reader.error("expected ',' or ']' in the list")
        return found


def _inner(kind: OptionKind, value: OptionValue) -> OptionValue:
    """Returns a value as it stands inside a message or a list."""
    if kind in ("boolean", "enum", "number"):
        assert isinstance(value, str)
        return Word(kind, value)
    return value
