"""Reads characters, words, strings and numbers of a .proto text."""

from __future__ import annotations

import re

from bowstring.protocol.whole_numbers import whole_number
from bowstring.schemas.errors import InvalidSchemaError

# Possessive, so that no text makes them try a thing twice.
SPACE = r"(?:[ \t\r\n]++|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+"
_SPACE = re.compile(SPACE)
# "", at the end of the text, is in it.
_BEFORE_SPACE = " \t\r\n/"
_WORD = re.compile(r"[A-Za-z0-9_.\-]++")
_PART = re.compile(r"[A-Za-z0-9_\-]++")
_STRING = {quote: re.compile(rf"[^{quote}\\]*+(?:\\.[^{quote}\\]*+)*+{quote}", re.S) for quote in "\"'"}
_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.S)
_NAMED_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]{1,100}")
# Of a name, a type or a package, in characters: resolving names costs their product.
WORD_MAX = 512
# Adjacent strings, which are one.
_STRINGS_MAX = 10_000
# Of types, fields, options, their values and all else that is kept of a text: each takes some hundred bytes.
PARTS_MAX = 200_000


class ProtoReader:
    """A cursor in a .proto text. Spaces and comments between tokens are skipped.

    Words are what Square's Wire reads as words (letters, digits, `_`, `-` and dots), because Confluent's
    registry reads with Wire: what one accepts, the other does too.

    Args:
        text: the text.
        counted: parts of other texts, which count, too.
    """

    __slots__ = ("counted", "position", "text")

    def __init__(self, text: str, counted: int = 0):
        self.text = text
        self.position = 0
        self.counted = counted

    def count(self) -> None:
        """Counts one more part of the text that is kept.

        Raises:
            InvalidSchemaError: there are too many.
        """
        self.counted += 1
        if self.counted > PARTS_MAX:
            raise self.error(
                f"the schema and its references have more than {PARTS_MAX:,} declarations, options and values"
            )

    def error(self, problem: str, position: int | None = None) -> InvalidSchemaError:
        """Returns an error that says where the problem is: at a position, or here."""
        at = self.position if position is None else position
        line = self.text.count("\n", 0, at) + 1
        column = at - (self.text.rfind("\n", 0, at) + 1) + 1
        return InvalidSchemaError(f"line {line}, column {column}: {problem}")

    def skip_space(self) -> None:
        """Moves to the next character that is neither a space nor part of a comment."""
        if self.text[self.position : self.position + 1] not in _BEFORE_SPACE:
            return
        found = _SPACE.match(self.text, self.position)
        assert found is not None
        self.position = found.end()
        if self.text.startswith("/*", self.position):
            raise self.error("the comment has no end; add */")

    def is_exhausted(self) -> bool:
        """Whether nothing but spaces and comments is left."""
        self.skip_space()
        return self.position == len(self.text)

    def peek(self) -> str:
        """Returns the next character and stays before it."""
        self.skip_space()
        if self.position == len(self.text):
            raise self.error("the text ends too early")
        return self.text[self.position]

    def take(self) -> str:
        """Returns the next character and moves behind it."""
        found = self.peek()
        self.position += 1
        return found

    def take_if(self, character: str) -> bool:
        """Moves behind the next character if it is this one, and returns whether it is."""
        if self.peek() != character:
            return False
        self.position += 1
        return True

    def require(self, character: str) -> None:
        """Moves behind the next character, which must be this one."""
        if (found := self.peek()) != character:
            raise self.error(f"expected {character!r} but found {found!r}")
        self.position += 1

    def word(self, *, leading_digit: bool = True, dots: bool = True) -> str:
        """Returns the next word.

        Args:
            leading_digit: whether it may begin with a digit, as names of fields and of enum values may not.
            dots: whether it may have dots.
        """
        self.skip_space()
        found = (_WORD if dots else _PART).match(self.text, self.position)
        if found is None:
            what = repr(self.text[self.position]) if self.position < len(self.text) else "the end of the text"
            raise self.error(f"expected a word but found {what}")
        word = found.group()
        if len(word) > WORD_MAX:
            raise self.error(
                f"the name {shorten(word)} has {len(word)} characters; at most {WORD_MAX} are allowed"
            )
        if not leading_digit and word[0] in "0123456789":
            raise self.error(f"the name {shorten(word)} begins with a digit")
        self.position = found.end()
        return word

    def name(self, *, leading_digit: bool = True, keep_brackets: bool = False, dots: bool = True) -> str:
        """Returns the next word, which may stand in parentheses or square brackets.

        Args:
            leading_digit, dots: as in `word`; names in brackets always may have dots.
            keep_brackets: whether the brackets are returned, too.
        """
        closing = {"(": ")", "[": "]"}.get(opening := self.peek())
        if closing is None:
            return self.word(leading_digit=leading_digit, dots=dots)
        self.position += 1
        word = self.word(leading_digit=leading_digit)
        self.require(closing)
        return f"{opening}{word}{closing}" if keep_brackets else word

    def integer(self) -> int:
        """Returns the next word, which must be an integer of 32 bits."""
        self.skip_space()
        start = self.position
        word = self.word()
        try:
            return integer_of(word)
        except ValueError:
            raise self.error(f"expected an integer of 32 bits but found {shorten(word)}", start) from None

    def quoted(self) -> str:
        """Returns the next string without its quotes and escapes. Adjacent strings are one."""
        start = self.position
        parts = []
        if self.peek() not in "\"'":
            raise self.error(f"expected a quoted string but found {self.peek()!r}")
        while self.peek() in "\"'":
            found = _STRING[self.take()].match(self.text, self.position)
            if found is None:
                raise self.error("the string has no end; add the quote", start)
            raw = found.group()[:-1]
            try:
                parts.append(unescape(raw))
            except ValueError as error:
                raise self.error(str(error), start) from None
            if len(parts) > _STRINGS_MAX:
                raise self.error(f"a string has more than {_STRINGS_MAX:,} parts")
            self.position = found.end()
        return "".join(parts)


def unescape(text: str) -> str:
    """Returns the text that stands between quotes without its escapes.

    Raises:
        InvalidSchemaError: an escape lacks its digits.
    """
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(found: re.Match[str]) -> str:
    hexadecimal, octal, character = found.groups()
    if hexadecimal is not None:
        return chr(int(hexadecimal, 16))
    if octal is not None:
        return chr(int(octal, 8))
    if character in "xX":
        raise InvalidSchemaError("the string has \\x without hexadecimal digits")
    return _NAMED_ESCAPES.get(character, character)


def shorten(text: str) -> str:
    """Returns a text for an error: at most 100 characters of it."""
    return text if len(text) <= 100 else text[:97] + "..."


def integer_of(word: str) -> int:
    """Returns the integer of 32 bits that a word is, decimal or hexadecimal.

    Raises:
        ValueError: it is none.
    """
    if _HEXADECIMAL.fullmatch(word):
        number: int | None = int(word, 16)
    else:
        number = whole_number(word.removeprefix("-"), 1 << 31)
        if number is not None and word[0] == "-":
            number = -number
    if number is None or not -(1 << 31) <= number < 1 << 31:
        raise ValueError(word)
    return number
