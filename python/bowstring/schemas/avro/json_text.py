"""Reads and writes JSON as Jackson does, which Confluent's registry stores schemas with."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from bowstring.schemas.errors import InvalidSchemaError

# More than any property or default needs; it bounds the recursion below.
DEPTH_MAX = 200
_REST_OF_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.S)
_QUOTE_OR_SLASH = re.compile('["/]')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f]")
_SHORT_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
# Java writes numbers from 1e-3 to below 1e7 without exponent: this many digits before the point.
_PLAIN_DIGITS = range(-2, 8)


def read_json(text: str) -> Any:
    """The value of a JSON text, which may have comments (`//` and `/* */`).

    Raises:
        InvalidSchemaError: it is not JSON, or has a character that UTF-8 cannot have.
    """
    try:
        value = _DECODER.decode(text)
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError) and "/" in text:
            try:
                value = _DECODER.decode(_without_comments(text))
            except ValueError as second:
                raise _not_json(second) from None
        else:
            raise _not_json(error) from None
    if _LONE_SURROGATE.search(text) or ("\\u" in text and _LONE_SURROGATE.search(write_json(value))):
        raise InvalidSchemaError("the text has half a surrogate pair, which is no character")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _not_json(error: ValueError) -> InvalidSchemaError:
    if isinstance(error, json.JSONDecodeError):
        place = f"line {error.lineno}, column {error.colno}"
        return InvalidSchemaError(f"not JSON at {place}: {error.msg[:1].lower()}{error.msg[1:]}")
    return InvalidSchemaError(f"not JSON: {error}")


def _without_comments(text: str) -> str:
    """The text with a space for each comment; linear in its length. What is no JSON stays so."""
    kept: list[str] = []
    position = 0
    while mark := _QUOTE_OR_SLASH.search(text, position):
        start = mark.start()
        if mark[0] == '"':
            string = _REST_OF_STRING.match(text, start + 1)
            end = string.end() if string else -1
            kept.append(text[position:end])
        else:
            end = _comment_end(text, start)
            kept += [text[position:start], " "]
        if end < 0:
            return text
        position = end
    return "".join((*kept, text[position:]))


def _comment_end(text: str, slash: int) -> int:
    """Where the comment that begins at `slash` ends; negative if none does."""
    if text.startswith("//", slash):
        end = text.find("\n", slash)
        return len(text) if end < 0 else end
    end = text.find("*/", slash + 2) if text.startswith("/*", slash) else -1
    return end + 2 if end >= 0 else -1


def quoted(text: str) -> str:
    """A JSON string; only quotation marks, backslashes and control characters are escaped."""
    written = encode_basestring(text)
    if "\\u00" in written and _CONTROL.search(text):
        inner = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{_CONTROL.sub(_escaped, inner)}"'
    return written


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def java_order(text: str) -> bytes:
    """The key by which Java sorts strings: by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def write_json(value: Any, *, sort: bool = False, depth: int = 0) -> str:
    """The text of a JSON value without spaces.

    Args:
        value: what `read_json` returned.
        sort: whether objects are sorted by key.
        depth: how deep the value is already.

    Raises:
        InvalidSchemaError: it is deeper than DEPTH_MAX.
    """
    if not isinstance(value, list | dict):
        return _scalar(value)
    if depth >= DEPTH_MAX:
        raise InvalidSchemaError(f"a value is nested more than {DEPTH_MAX} levels deep")
    if isinstance(value, list):
        return f"[{','.join([write_json(each, sort=sort, depth=depth + 1) for each in value])}]"
    keys = sorted(value, key=java_order) if sort else value
    inner = [f"{quoted(key)}:{write_json(value[key], sort=sort, depth=depth + 1)}" for key in keys]
    return f"{{{','.join(inner)}}}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        return java_double(value)
    return str(value) if type(value) is int else {None: "null", True: "true", False: "false"}[value]


def java_double(value: float) -> str:
    """A double as Java's `Double.toString` writes it (JDK 19 and later: the shortest digits)."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    # Java writes two digits at least, the nearest ones: 4.9E-324.
    short = f"{value:.1e}"
    return java_decimal(short if float(short) == value else repr(value))


def java_decimal(shortest: str) -> str:
    """The digits of a finite number in Java's notation.

    Args:
        shortest: the fewest digits that give the number, in any notation.
    """
    sign, digits, exponent = Decimal(shortest).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    exponent = int(exponent) + len(digits) - len(text)
    minus = "-" if sign else ""
    if text == "0":
        return f"{minus}0.0"
    if exponent + len(text) in _PLAIN_DIGITS:
        plain = f"{abs(Decimal(shortest)):f}"
        whole, _, fraction = plain.partition(".")
        return f"{minus}{whole}.{fraction.rstrip('0') or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{exponent + len(text) - 1}"
