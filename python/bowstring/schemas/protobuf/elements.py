"""What a .proto file declares, in the order of its text.

Comments and places are left out: two texts that differ in nothing else are one schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, Union

if TYPE_CHECKING:
    from collections.abc import Sequence

TAG_MAX = (1 << 29) - 1
SCALARS = frozenset(
    (
        *("bool", "bytes", "double", "float", "string", "int32", "int64", "uint32", "uint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "sint32", "sint64"),
    )
)

OptionKind: TypeAlias = Literal["string", "boolean", "number", "enum", "map", "list", "option"]
Range: TypeAlias = tuple[int, int]


@dataclass(slots=True, frozen=True)
class Word:
    """A boolean, a number or a name inside a message or a list that is the value of an option."""

    kind: OptionKind
    text: str


OptionValue: TypeAlias = Union[str, Word, dict[str, "OptionValue"], list["OptionValue"], "Option"]


@dataclass(slots=True)
class Option:
    """An option: `name = value`, or `(name).rest = value`, with the rest as the value's name.

    The value of a boolean, a number or an enum is its text; one of kind "option" is an Option.
    """

    name: str
    kind: OptionKind
    value: OptionValue
    parenthesized: bool = False


@dataclass(slots=True)
class Field:
    """A field, of a message, a oneof, a group or an extension.

    Attributes:
        label: required, optional, repeated or "".
        type: as written: a scalar, a name with or without a leading dot, or map<key, value>.
    """

    label: str
    type: str
    name: str
    tag: int
    default: str | None = None
    json_name: str | None = None
    options: Sequence[Option] = ()


@dataclass(slots=True)
class Group:
    """A group of proto2: a field and its message in one."""

    label: str
    name: str
    tag: int
    fields: list[Field]


@dataclass(slots=True)
class OneOf:
    """A oneof of a message."""

    name: str
    fields: list[Field] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Extensions:
    """Numbers of a message that extensions may take: single ones and ranges with both ends."""

    values: list[int | Range]
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Reserved:
    """Numbers, ranges and names that may not be used: one statement."""

    values: list[int | Range | str]


@dataclass(slots=True)
class Extend:
    """Fields added to a message that is declared elsewhere."""

    name: str
    fields: list[Field]


@dataclass(slots=True)
class EnumConstant:
    """A value of an enum."""

    name: str
    tag: int
    options: Sequence[Option] = ()


@dataclass(slots=True)
class Enum:
    """An enum."""

    name: str
    constants: list[EnumConstant] = field(default_factory=list)
    reserveds: list[Reserved] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Message:
    """A message, with the types that it encloses."""

    name: str
    types: list[Message | Enum] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    reserveds: list[Reserved] = field(default_factory=list)
    extensions: list[Extensions] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Rpc:
    """A method of a service."""

    name: str
    request: str
    response: str
    request_streaming: bool = False
    response_streaming: bool = False
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Service:
    """A service."""

    name: str
    rpcs: list[Rpc] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class ProtoFile:
    """A .proto file.

    Attributes:
        syntax: proto2, proto3, or "" where the text does not say.
        edition: such as 2023, or "" in a file with a syntax.
        package: None without a package.
        parts: how many declarations, options and values it has.
        weak_imports: read and dropped from every form of the text, as Confluent's registry does.
    """

    syntax: str = ""
    edition: str = ""
    parts: int = 0
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    weak_imports: list[str] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


def map_types(written: str) -> tuple[str, str] | None:
    """Returns the types of key and value of `map<key, value>`; None of any other type."""
    if not (written.startswith("map<") and written.endswith(">")):
        return None
    key, _, value = written[4:-1].partition(",")
    return key.strip(), value.strip()


def is_map_entry(message: Message) -> bool:
    """Whether a message is the one that a descriptor has for a map."""
    return any(option.name == "map_entry" and option.value == "true" for option in message.options)
