"""Defines the errors of typed values; each message says what to do."""

from __future__ import annotations

from bowstring.clients.errors import ClientError


class ValueSchemaError(ClientError, ValueError):
    """A schema cannot be parsed, or describes something that columns cannot represent. The message says which
    part.
    """


class ValueDecodeError(ClientError, ValueError):
    """A value does not decode, and the format has `on_error="raise"`.

    Attributes:
        row: the value's index in the array.
        reason: why it does not decode.
        bad_values: number of bad values in the array.
        record: topic, partition and offset, if they were read.
    """

    def __init__(self, row: int, reason: str, bad_values: int = 1, record: str = ""):
        others = f" ({bad_values} values of the batch are bad)" if bad_values > 1 else ""
        super().__init__(
            f"{record or f'value {row}'}: {reason}{others}. Use on_error='column' to get null and the "
            "reason, or a DeadLetter to send such values to a topic"
        )
        self.row = row
        self.reason = reason
        self.bad_values = bad_values
        self.record = record


class ValueEncodeError(ClientError, ValueError):
    """Columns cannot be encoded in this format. The message names the field and the reason."""


class ValuesTooLargeError(ClientError):
    """The strings of one column would exceed 2 GiB."""

    def __init__(self) -> None:
        super().__init__(
            "the values of one batch hold 2 GiB of strings, or 2^31 list items, in one column: "
            "decode fewer at once (max_batch_rows, max_bytes)"
        )
