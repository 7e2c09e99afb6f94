"""One reason why a schema cannot read what another one wrote."""

from __future__ import annotations

from dataclasses import dataclass, replace

READER = "{reader}"
WRITER = "{writer}"


@dataclass(frozen=True, slots=True)
class Difference:
    """One incompatible change between two schemas.

    Attributes:
        kind: Confluent's name of the change, for example READER_FIELD_MISSING_DEFAULT_VALUE.
        path: where in the schema that reads it is: a JSON pointer, or what is usual for the type.
        description: one sentence. It may contain `{reader}` and `{writer}`, which stand for the two schemas:
            `compatibility.check` writes "new" and "old" for them.
        details: what the change is about, for example the name of a field; empty if the description has all.
        previous: position of the older schema in the list given to `compatibility.check`; -1 before.
    """

    kind: str
    path: str
    description: str
    details: str = ""
    previous: int = -1

    def between(self, reader: str, writer: str, previous: int) -> Difference:
        """The same with names for the schemas, and the position of the older one."""
        described = self.description.replace(READER, reader).replace(WRITER, writer)
        return replace(self, description=described, previous=previous)

    def message(self) -> str:
        """One line, in the form of Confluent's messages with `?verbose=true`."""
        text = f"{{errorType:'{self.kind}', description:'{self.description}'"
        if self.details:
            text += f", additionalInfo:'{self.details}'"
        return (text + "}").replace("\n", " ")
