"""Parses schemas in Spark's DDL (`id BIGINT, place STRUCT<city: STRING, at: ARRAY<DOUBLE>>`).

PySpark parses DDL in the JVM only, and a Python worker has no JVM.
"""

from __future__ import annotations

import re

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from bowstring.clients.errors import ConfigError

ATOMS: dict[str, type[DataType]] = {
    "bigint": LongType,
    "binary": BinaryType,
    "boolean": BooleanType,
    "byte": ByteType,
    "date": DateType,
    "double": DoubleType,
    "float": FloatType,
    "int": IntegerType,
    "integer": IntegerType,
    "long": LongType,
    "real": FloatType,
    "short": ShortType,
    "smallint": ShortType,
    "string": StringType,
    "timestamp": TimestampType,
    "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
    "tinyint": ByteType,
}
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+)|([<>,:()]))")


def parse_ddl(text: str) -> StructType:
    """Returns the struct that a DDL string describes.

    Raises:
        ConfigError: the string is not DDL; the message says where.
    """
    parser = _Parser(text)
    found = parser.fields(end=None)
    parser.expect(None)
    return found


class _Parser:
    def __init__(self, text: str):
        self._text = text
        self._at = 0
        self._token: str | None = None
        self._quoted = False
        self._next()

    def _next(self) -> str | None:
        """Returns the present token and moves to the next."""
        token = self._token
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            if self._text[self._at :].strip():
                raise self._wrong()
            self._token = None
            return token
        self._at = match.end()
        self._quoted = match[1] is not None
        self._token = match[1].replace("``", "`") if match[1] is not None else match[2] or match[3]
        return token

    def _wrong(self) -> ConfigError:
        return ConfigError(
            f"value.schema is not valid DDL at {self._text[max(0, self._at - 10) : self._at + 20]!r}; write "
            "for example: id BIGINT, place STRUCT<city: STRING, at: ARRAY<DOUBLE>>"
        )

    def expect(self, token: str | None) -> None:
        """Skips a required token."""
        if self._token != token:
            raise self._wrong()
        self._next()

    def _word(self) -> str:
        if self._token is None or (not self._quoted and not re.fullmatch(r"\w+", self._token)):
            raise self._wrong()
        return self._next() or ""

    def _is(self, *words: str) -> bool:
        return self._token is not None and not self._quoted and self._token.lower() in words

    def fields(self, end: str | None) -> StructType:
        """Parses fields separated by commas, up to `end`."""
        found: list[StructField] = []
        while self._token != end:
            if found:
                self.expect(",")
            name = self._word()
            if self._token == ":":
                self._next()
            kind = self._type()
            nullable = True
            if self._is("not"):
                self._next()
                if self._word().lower() != "null":
                    raise self._wrong()
                nullable = False
            if self._is("comment"):
                raise ConfigError("value.schema: comments are not supported")
            found.append(StructField(name, kind, nullable))
        if not found:
            raise self._wrong()
        return StructType(found)

    def _type(self) -> DataType:
        word = self._word().lower()
        if word == "struct":
            self.expect("<")
            struct = self.fields(end=">")
            self.expect(">")
            return struct
        if word in ("array", "map"):
            self.expect("<")
            first = self._type()
            if word == "array":
                self.expect(">")
                return ArrayType(first)
            self.expect(",")
            second = self._type()
            self.expect(">")
            return MapType(first, second)
        if word in ("decimal", "dec", "numeric"):
            return self._decimal()
        atom = ATOMS.get(word)
        if atom is None:
            raise self._wrong()
        return atom()

    def _decimal(self) -> DecimalType:
        if self._token != "(":
            return DecimalType(10, 0)
        self._next()
        precision, scale = int(self._word()), 0
        if self._token == ",":
            self._next()
            scale = int(self._word())
        self.expect(")")
        return DecimalType(precision, scale)
