"""A parsed Protobuf schema."""

from __future__ import annotations

import base64
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from bowstring.schemas.parsed_schema import ParsedSchema
from bowstring.schemas.protobuf.elements import Message, ProtoFile
from bowstring.schemas.protobuf.file_comparison import FileComparison
from bowstring.schemas.protobuf.file_validation import FileValidation
from bowstring.schemas.protobuf.normal_printer import NormalPrinter
from bowstring.schemas.protobuf.proto_parser import parse_proto
from bowstring.schemas.protobuf.proto_printer import ProtoPrinter
from bowstring.schemas.protobuf.type_index import TypeIndex
from bowstring.schemas.protobuf.well_known import FILES, well_known_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bowstring.schemas.difference import Difference
    from bowstring.schemas.resolved_reference import ResolvedReference


class ProtobufSchema(ParsedSchema):
    """A .proto file, with the files that it references.

    Args:
        file: the schema.
        dependencies: what it references, and the file of each.
        text: the canonical text, if it is not the one that the file would get.
    """

    kind: ClassVar[str] = "PROTOBUF"

    def __init__(
        self,
        file: ProtoFile,
        dependencies: Sequence[tuple[ResolvedReference, ProtoFile]] = (),
        text: str | None = None,
    ):
        self._file = file
        self._text = text
        self._dependencies = tuple(dependencies)

    @cached_property
    def _index(self) -> TypeIndex:
        return TypeIndex(self._file, self._dependencies)

    @cached_property
    def _normal_text(self) -> str:
        return NormalPrinter(self._index).text(self._file)

    @cached_property
    def canonical(self) -> str:
        """The text without comments, in the layout of Confluent's registry."""
        return ProtoPrinter().text(self._file) if self._text is None else self._text

    def validate(self) -> None:
        """Checks what the text alone does not show, as a new schema must hold it.

        Raises:
            InvalidSchemaError: a type is declared nowhere, or a rule of protoc is broken.
        """
        validation = FileValidation(self._file, self._index)
        validation.check_names()
        validation.check_rules()

    @property
    def name(self) -> str | None:
        """The full name of the first message; without a message that of the first enum."""
        file = self._effective_file()
        messages = [each for each in file.types if isinstance(each, Message)]
        first = next(iter([*messages, *file.types]), None)
        if first is None:
            return None
        return f"{file.package}.{first.name}" if file.package else first.name

    def _effective_file(self) -> ProtoFile:
        """Returns the file, or the one that it publicly imports if it has nothing else."""
        file = self._file
        has_more = (
            file.types or file.imports or file.services or file.extends or len(file.public_imports) != 1
        )
        if has_more:
            return file
        [path] = file.public_imports
        for reference, dependency in self._dependencies:
            if reference.name == path:
                return dependency if dependency.types else file
        return well_known_file(path) if path in FILES else file

    def normalized(self) -> ProtobufSchema:
        """The schema in normal form: sorted, with full names of types.

        Raises:
            InvalidSchemaError: a type is declared nowhere.
        """
        text = self._normal_text
        return ProtobufSchema(parse_proto(text), self._dependencies, text)

    def formatted(self, format: str) -> str:
        """The text in another format.

        Args:
            format: `ignore_extensions`, or `serialized` for a FileDescriptorProto in Base64.
        """
        match format.lower():
            case "ignore_extensions":
                return ProtoPrinter(ignore_extensions=True).text(self._file)
            case "serialized":
                # Loads protobuf.
                from bowstring.schemas.protobuf.to_descriptor import serialized_file

                imported = {reference.name for reference, _ in self._dependencies} | FILES.keys()
                return base64.b64encode(serialized_file(self._file, self._index, imported)).decode()
        return self.canonical

    def differences(self, previous: ParsedSchema, is_lenient: bool = False) -> list[Difference]:
        """What keeps readers with this schema from data written with `previous`: see `file_comparison`."""
        assert isinstance(previous, ProtobufSchema)
        return FileComparison(previous._index, self._index).differences(previous._file, self._file)

    def has_top_level_field(self, name: str) -> bool:
        """Whether a message of the file has a field of this name, outside of oneofs."""
        return any(
            field.name == name
            for each in self._effective_file().types
            if isinstance(each, Message)
            for field in each.fields
        )
