"""What is wrong with a schema."""

from __future__ import annotations


class InvalidSchemaError(ValueError):
    """A schema that cannot be used; the message is one line that names the place and the cause."""
