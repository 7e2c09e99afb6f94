"""A value format written in Python, for typed columns of Arrow data."""

import pyarrow as pa


class Lengths:
    """A format that reads a value as its length; `bad` does not decode."""

    schema = pa.schema([("length", pa.int64())])

    def decode(self, array):
        values = array.to_pylist()
        lengths = [None if v is None or v == b"bad" else {"length": len(v)} for v in values]
        errors = pa.array(["bad value" if v == b"bad" else None for v in values], pa.string())
        return pa.array(lengths, pa.struct(list(self.schema))), errors if b"bad" in values else None
