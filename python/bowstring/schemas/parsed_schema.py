"""What all types of schemas have in common once they are parsed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from bowstring.schemas.difference import Difference


class ParsedSchema(ABC):
    """A parsed schema; immutable, and free of the registry that it comes from.

    Attributes:
        kind: "AVRO", "JSON" or "PROTOBUF".
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def canonical(self) -> str:
        """The text that is stored, compared and hashed: Confluent's `canonicalString()`, byte for byte."""

    @property
    @abstractmethod
    def name(self) -> str | None:
        """The full name of the record or message that it describes; `None` if it has none."""

    @abstractmethod
    def normalized(self) -> ParsedSchema:
        """The same schema in the one form that `?normalize=true` stores.

        Order that means nothing and optional details no longer tell two schemas apart.
        """

    @abstractmethod
    def formatted(self, format: str) -> str:
        """The text in another format, for `?format=`.

        Args:
            format: as in the request; an empty or unknown format gives the canonical text.
        """

    @abstractmethod
    def differences(self, previous: ParsedSchema, is_lenient: bool = False) -> list[Difference]:
        """What keeps readers with this schema from data that was written with `previous`.

        Confluent's `isBackwardCompatible`. Both have the same `kind`. Empty: all such data is readable.

        Args:
            previous: the schema that wrote.
            is_lenient: `compatibilityPolicy` LENIENT, which only JSON schemas regard.

        Raises:
            InvalidSchemaError: the comparison takes too long.
        """

    @property
    def meaning(self) -> str:
        """The same text for all schemas that are `equivalent`, so that a hash of it can be kept."""
        return self.canonical

    def equivalent(self, other: ParsedSchema) -> bool:
        """Whether both mean the same, however the texts arrange it; references count as if written out."""
        return self.kind == other.kind and self.meaning == other.meaning

    def has_top_level_field(self, name: str) -> bool:
        """Whether the schema's own record, object or first message has a field of this name."""
        return False
