"""What can go wrong with typed values, each with what to do about it."""

from __future__ import annotations

from bowstring.clients.errors import ClientError


class ValueSchemaError(ClientError, ValueError):
    """A schema cannot be read, or describes what has no columns. The message says which part."""


class ValueDecodeError(ClientError, ValueError):
    """A value does not decode, and the format was made with `on_error="raise"`.

    Attributes:
        row: the value's place in the array.
        reason: what is wrong with it.
        bad_values: how many of the array are bad.
        record: topic, partition and offset, as far as they were read.
    """

    def __init__(self, row: int, reason: str, bad_values: int = 1, record: str = ""):
        others = f" ({bad_values} values of the batch are bad)" if bad_values > 1 else ""
        super().__init__(
            f"{record or f'value {row}'}: {reason}{others}. on_error='column' gives null and the reason, "
            "a DeadLetter sends such values to a topic"
        )
        self.row = row
        self.reason = reason
        self.bad_values = bad_values
        self.record = record


class ValueEncodeError(ClientError, ValueError):
    """Columns cannot be written in this format. The message names the field and the reason."""


class ValuesTooLargeError(ClientError):
    """The strings of one column would pass 2 GiB."""

    def __init__(self) -> None:
        super().__init__(
            "the values of one batch hold 2 GiB of strings, or 2^31 list items, in one column: "
            "decode fewer at once (max_batch_rows, max_bytes)"
        )
