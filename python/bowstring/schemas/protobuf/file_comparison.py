"""Finds what keeps readers with one .proto file from data that was written with another."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from bowstring.schemas.difference import Difference
from bowstring.schemas.protobuf.elements import SCALARS, Enum, Field, Message, ProtoFile, map_types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bowstring.schemas.protobuf.type_index import IndexedType, TypeIndex

# Each incompatible change, by Confluent's name, and what it means.
DESCRIPTIONS = {
    "PACKAGE_CHANGED": "the package of the {reader} schema is not that of the {writer} schema",
    "MESSAGE_REMOVED": "the message {path} of the {writer} schema is missing in the {reader} schema",
    "FIELD_KIND_CHANGED": "the field {path} is a scalar, a map or a message in the {reader} schema, and "
    "another of the three in the {writer} schema",
    "FIELD_SCALAR_KIND_CHANGED": "the type of the field {path} in the {reader} schema is encoded in another "
    "way than that in the {writer} schema",
    "FIELD_NAMED_TYPE_CHANGED": "the message of the field {path} in the {reader} schema cannot read that in "
    "the {writer} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "the label of the numeric field {path} is not the same in the {reader} "
    "schema and the {writer} schema",
    "REQUIRED_FIELD_ADDED": "the required field {path} of the {reader} schema is missing in the {writer} "
    "schema",
    "REQUIRED_FIELD_REMOVED": "the required field {path} of the {writer} schema is missing in the {reader} "
    "schema",
    "ONEOF_FIELD_REMOVED": "the field {path} of a oneof of the {writer} schema is missing in the {reader} "
    "schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "the oneof {path} of the {reader} schema has several fields that are "
    "in no oneof of the {writer} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "the oneof {path} of the {reader} schema has a field that is outside of "
    "it in the {writer} schema, beside other fields",
}
# How a scalar is encoded: types of one kind read each other.
SCALAR_KINDS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "number"),
    **dict.fromkeys(("sint32", "sint64"), "signed number"),
    **dict.fromkeys(("string", "bytes"), "string or bytes"),
    **dict.fromkeys(("fixed32", "sfixed32"), "32 bits"),
    **dict.fromkeys(("fixed64", "sfixed64"), "64 bits"),
    "float": "float",
    "double": "double",
}
_DIFFERENCES_MAX = 1_000


class _Side(NamedTuple):
    """A message of one of the two schemas.

    Attributes:
        message: what it declares.
        name: its full name, in which the names of types are resolved.
    """

    message: Message
    name: str


class _Edge(NamedTuple):
    """A field whose type stands in another file, in one of the schemas at least: they are compared, too.

    Attributes:
        inside: the pair of messages that has the field; None: the two files.
        path: of the field.
        target: the full names of the two messages.
    """

    inside: tuple[str, str] | None
    path: tuple[str, ...]
    target: tuple[str, str]


class FileComparison:
    """Compares two schemas by the rules of Confluent's registry: fields by number, messages by name.

    Messages of other files are compared once, however often they are used, and in a loop: neither types that
    use each other nor long chains of them are a danger.

    Args:
        writer: the index of the older schema, whose data is read.
        reader: that of the schema that reads.
    """

    def __init__(self, writer: TypeIndex, reader: TypeIndex):
        self._writer = writer
        self._reader = reader
        self._found: list[tuple[str, tuple[str, ...]]] = []
        self._edges: list[_Edge] = []
        self._pairs: set[tuple[str, str]] = set()
        self._broken: set[tuple[str, str]] = set()
        self._pending: deque[tuple[str, str]] = deque()
        self._inside: tuple[str, str] | None = None

    def differences(self, writer: ProtoFile, reader: ProtoFile) -> list[Difference]:
        """Returns the incompatible changes between two files."""
        if writer.package != reader.package:
            self._add("PACKAGE_CHANGED", ())
        self._types(writer.types, reader.types, (), writer.package or "", reader.package or "")
        while self._pending:
            self._inside = pair = self._pending.popleft()
            old, new = self._writer.type_named(pair[0]), self._reader.type_named(pair[1])
            assert old is not None and new is not None
            assert isinstance(old.declared, Message) and isinstance(new.declared, Message)
            self._messages(
                _Side(old.declared, pair[0]), _Side(new.declared, pair[1]), tuple(old.local_name.split("."))
            )
        self._spread()
        return [
            Difference(kind, path := f"#/{'/'.join(parts)}", DESCRIPTIONS[kind].replace("{path}", path))
            for kind, parts in self._found[:_DIFFERENCES_MAX]
        ]

    def _add(self, kind: str, path: tuple[str, ...]) -> None:
        if self._inside is not None:
            self._broken.add(self._inside)
        if len(self._found) < _DIFFERENCES_MAX:
            self._found.append((kind, path))

    def _spread(self) -> None:
        """Adds each field whose message, in another file, is incompatible itself or has such a field."""
        users: dict[tuple[str, str], list[_Edge]] = {}
        for edge in self._edges:
            users.setdefault(edge.target, []).append(edge)
        pending = [*self._broken]
        while pending:
            for edge in users.pop(pending.pop(), ()):
                if edge.inside is not None and edge.inside not in self._broken:
                    pending.append(edge.inside)
                self._inside = edge.inside
                self._add("FIELD_NAMED_TYPE_CHANGED", edge.path)

    def _types(
        self,
        writer: Sequence[Message | Enum],
        reader: Sequence[Message | Enum],
        path: tuple[str, ...],
        writer_scope: str,
        reader_scope: str,
    ) -> None:
        """Compares the messages that a file or a message encloses; changes of enums are compatible."""
        new = {each.name: each for each in reader if isinstance(each, Message)}
        for name, each in {each.name: each for each in writer if isinstance(each, Message)}.items():
            old_name = f"{writer_scope}.{name}" if writer_scope else name
            if name in new:
                new_name = f"{reader_scope}.{name}" if reader_scope else name
                self._messages(_Side(each, old_name), _Side(new[name], new_name), (*path, name))
            elif (found := self._writer.find_type(name, old_name)) is not None and not found.is_map_entry:
                self._add("MESSAGE_REMOVED", (*path, name))

    def _messages(self, old: _Side, new: _Side, path: tuple[str, ...]) -> None:
        writer, reader = _fields_by_tag(old.message), _fields_by_tag(new.message)
        self._moves_to_oneofs(new.message, writer, path)
        deleted = _deleted_oneofs(old.message, new.message, reader)
        for tag in sorted(writer.keys() | reader.keys()):
            if tag not in reader:
                field, oneof = writer[tag]
                if oneof is None:
                    if field.label == "required":
                        self._add("REQUIRED_FIELD_REMOVED", (*path, str(tag)))
                elif oneof not in deleted:
                    self._add("ONEOF_FIELD_REMOVED", (*path, oneof, str(tag)))
                continue
            field, oneof = reader[tag]
            place = (*path, str(tag)) if oneof is None else (*path, oneof, str(tag))
            if tag in writer:
                before = writer[tag][0]
                self._field_types(
                    place, (before.label, before.type, old.name), (field.label, field.type, new.name)
                )
            elif oneof is None and field.label == "required":
                self._add("REQUIRED_FIELD_ADDED", place)
        self._types(old.message.types, new.message.types, path, old.name, new.name)

    def _moves_to_oneofs(
        self, reader: Message, writer: dict[int, tuple[Field, str | None]], path: tuple[str, ...]
    ) -> None:
        """Finds fields that could be set together and now exclude each other."""
        for oneof in reader.oneofs:
            origins: set[str | int] = set()
            moved = 0
            for field in oneof.fields:
                if (before := writer.get(field.tag)) is None:
                    continue
                if before[1] is None:
                    moved += 1
                origins.add(field.tag if before[1] is None else before[1])
            if len(origins) > 1:
                kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if moved > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
                self._add(kind, (*path, oneof.name))

    def _field_types(
        self, path: tuple[str, ...], writer: tuple[str, str, str], reader: tuple[str, str, str]
    ) -> None:
        """Compares label and type of a field; each has the scope of its type with it."""
        old_label, old_type, old_scope = writer
        new_label, new_type, new_scope = reader
        old, old_type = _resolved(self._writer, old_type, old_scope)
        new, new_type = _resolved(self._reader, new_type, new_scope)
        old_map, new_map = map_types(old_type), map_types(new_type)
        old_kind, new_kind = _kind(old, old_type), _kind(new, new_type)
        if old_map is not None and new_map is not None:
            for old_inner, new_inner in zip(old_map, new_map, strict=True):
                self._field_types(path, ("", old_inner, old_scope), ("", new_inner, new_scope))
        elif old_map is not None or new_map is not None or (old_kind == "") != (new_kind == ""):
            self._add("FIELD_KIND_CHANGED", path)
        elif old_kind == "":
            self._message_types(path, old, old_type, new, new_type)
        elif old_kind != new_kind:
            self._add("FIELD_SCALAR_KIND_CHANGED", path)
        elif old_label and new_label and old_label != new_label and old_kind != "string or bytes":
            self._add("FIELD_NUMERIC_LABEL_CHANGED", path)

    def _message_types(
        self,
        path: tuple[str, ...],
        old: IndexedType | None,
        old_type: str,
        new: IndexedType | None,
        new_type: str,
    ) -> None:
        if old is None or new is None:
            if old_type != new_type:
                self._add("FIELD_NAMED_TYPE_CHANGED", path)
        elif old.local_name != new.local_name:
            self._add("FIELD_NAMED_TYPE_CHANGED", path)
        elif not _is_same_file(old, new):
            pair = (old.full_name, new.full_name)
            self._edges.append(_Edge(self._inside, path, pair))
            if pair not in self._pairs:
                self._pairs.add(pair)
                self._pending.append(pair)


def _fields_by_tag(message: Message) -> dict[int, tuple[Field, str | None]]:
    """Returns each field by its number, with the name of its oneof."""
    found: dict[int, tuple[Field, str | None]] = {field.tag: (field, None) for field in message.fields}
    for oneof in message.oneofs:
        for field in oneof.fields:
            found[field.tag] = (field, oneof.name)
    return found


def _deleted_oneofs(
    writer: Message, reader: Message, fields: dict[int, tuple[Field, str | None]]
) -> set[str]:
    """Returns the oneofs that are gone with all of their fields, which is compatible."""
    kept = {oneof.name for oneof in reader.oneofs}
    return {
        oneof.name
        for oneof in writer.oneofs
        if oneof.name not in kept and not any(field.tag in fields for field in oneof.fields)
    }


def _resolved(index: TypeIndex, written: str, scope: str) -> tuple[IndexedType | None, str]:
    """Returns what a type means, if it is a name, and its text: that of a map if it stands for one."""
    if written in SCALARS or map_types(written) is not None:
        return None, written
    found = index.find_type(written, scope)
    return found, found.map_type() if found is not None and found.is_map_entry else written


def _kind(found: IndexedType | None, written: str) -> str:
    """Returns how a type is encoded if it is a scalar; "" of a message."""
    if found is not None and isinstance(found.declared, Enum):
        return "number"
    return SCALAR_KINDS.get(written, "")


def _is_same_file(old: IndexedType, new: IndexedType) -> bool:
    """Whether two types are compared already, or cannot differ: both are of the schemas themselves, or of one
    version of one subject.
    """
    if old.is_local or new.is_local:
        return old.is_local and new.is_local
    if old.reference is None or new.reference is None:
        return old.declared is new.declared
    return (old.reference.subject, old.reference.version) == (new.reference.subject, new.reference.version)
