"""Implements values that are text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bowstring._native.base.object_decoder import ObjectDecoder
from bowstring._native.values.json_objects import TextObjects, text_faults
from bowstring.clients.errors import ConfigError
from bowstring.values.decoder_arrays import binary_array, decoder_input
from bowstring.values.errors import ValueDecodeError, ValueEncodeError
from bowstring.values.format import OnError, ValueFormat


class Text(ValueFormat):
    """Values that are UTF-8 text (RFC 3629): strings as objects, and a column of strings in Arrow.

    A value with bytes that are not UTF-8 is bad.

    Args:
        on_error: "column", "raise", or a DeadLetter.

    Examples:
        >>> import bowstring, pyarrow as pa
        >>> texts, errors = bowstring.Text().decode(pa.array([b"hat", b"\\xff"]))
        >>> texts.to_pylist(), errors.to_pylist()
        (['hat', None], [None, 'at byte 0: not UTF-8'])
    """

    def __init__(self, *, on_error: OnError = "column"):
        super().__init__(on_error, None, 0)
        self.schema = pa.schema([("text", pa.string())])

    def __repr__(self) -> str:
        return "Text()"

    @property
    def type(self) -> pa.DataType:
        """The type of `decode`'s values: string."""
        return pa.string()

    def object_decoder(self) -> ObjectDecoder:
        """Returns a new decoder to objects, for one thread."""
        return TextObjects()

    def decode(self, array: pa.Array | pa.ChunkedArray) -> tuple[pa.StringArray, pa.StringArray | None]:
        """Returns the strings, null for bad values, and the errors of bad values, or None if all are good.

        Args:
            array: binary, binary_view or strings, or their large variants. Null stays null.

        Raises:
            ValueDecodeError: with `on_error="raise"`, for the first bad value.
        """
        values = binary_array(array)
        bad = text_faults(decoder_input(values))
        if not bad:
            return values.cast(pa.string()), None
        if self.on_error == "raise":
            raise ValueDecodeError(*bad[0], len(bad))
        reasons: list[str | None] = [None] * len(values)
        good = [True] * len(values)
        for row, reason in bad:
            reasons[row], good[row] = reason, False
        kept = values.cast(pa.binary()) if not pa.types.is_binary(values.type) else values
        strings = pa.compute.if_else(pa.array(good), kept, pa.scalar(None, pa.binary())).cast(pa.string())
        return strings, pa.array(reasons, pa.string())

    def encode_value(self, value: Any) -> bytes | None:
        """Returns the bytes of a string, as `Producer.send` writes them; bytes and None are unchanged.

        Args:
            value: a string.

        Raises:
            ValueEncodeError: it is something else, or has surrogates.
        """
        if value is None or isinstance(value, bytes):
            return value
        if not isinstance(value, str):
            raise ValueEncodeError(f"the value is a {type(value).__name__}, Text() needs a string")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise ValueEncodeError(f"the text is not Unicode: {error}") from None

    def encode(self, columns: pa.Array | pa.ChunkedArray) -> pa.BinaryArray:
        """Returns the bytes of strings; null stays null.

        Args:
            columns: strings.
        """
        if not isinstance(columns, pa.Array | pa.ChunkedArray):
            raise ConfigError(
                f"columns is a {type(columns).__name__}, it must be an Arrow array of strings: "
                "pyarrow.array(['hat'])"
            )
        strings = columns.combine_chunks() if isinstance(columns, pa.ChunkedArray) else columns
        return strings.cast(pa.string()).cast(pa.binary())
