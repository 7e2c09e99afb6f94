"""Declares messages: one class per message, one line per field.

    class MetadataRequest(Request, key=3):
        topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+")
        allow_auto_topic_creation: bool = boolean("4+", default=True)

The annotation is for type checkers; the call on the right declares the wire format. Versions are written as
in Kafka's protocol guide: ``"3+"``, ``"1-4"``, ``"2"`` or ``"none"``; those of an API are in `API_RANGES`, so
that they are known before its module is imported. Constructors take keywords only, and
every field is optional; an omitted field has its declared default, or the type's zero.

The codec's plans, the table of versions, the dispatch by key, the reference page, the round-trip tests and
the fuzz seeds derive from the declaration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

from bowstring._native.protocol.message_layout import KINDS, Layout, StructBase
from bowstring.protocol.messages import API_RANGES

Versions = tuple[int, int]

LATEST = 0x7FFF
"""Upper bound of an open range such as ``"3+"``."""

(
    BOOL,
    INT8,
    INT16,
    UINT16,
    INT32,
    UINT32,
    INT64,
    FLOAT64,
    UUID,
    STRING,
    BYTES,
    RECORDS,
    STRUCT,
    ARRAY,
) = range(len(KINDS))

ZERO_UUID = bytes(16)
_NO_VERSIONS: Versions = (0, -1)
_ranges: dict[str, Versions] = {"none": _NO_VERSIONS}


def version_range(text: str) -> Versions:
    """Returns lowest and highest version of ``"3+"``, ``"1-4"`` or ``"2"``; ``"none"`` gives an empty
    range.
    """
    found = _ranges.get(text)
    if found is None:
        lowest, _, highest = text.partition("-")
        found = (int(text[:-1]), LATEST) if text[-1] == "+" else (int(lowest), int(highest or lowest))
        _ranges[text] = found
    return found


class Field:
    """One declared field. A `default` of None means null; otherwise an array defaults to empty and a struct
    to its own default.
    """

    __slots__ = (
        "default",
        "element",
        "flexible",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "secret",
        "struct",
        "tag",
        "versions",
    )

    def __init__(
        self,
        kind: int,
        versions: str,
        default: object,
        nullable: str = "none",
        ignorable: bool = False,
        tag: int = -1,
        element: int = -1,
        struct: type[Struct] | None = None,
        flexible: bool | None = None,
        secret: bool = False,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = version_range(versions)
        self.default = default
        self.nullable = version_range(nullable)
        self.ignorable = ignorable
        self.tag = tag
        self.element = element
        self.struct = struct
        self.flexible = flexible
        self.secret = secret


# Each function returns Any, so that the annotation and not the call determines the field's type.


def boolean(versions: str, *, default: bool = False, ignorable: bool = False, tag: int = -1) -> Any:
    """One byte; false is zero."""
    return Field(BOOL, versions, default, "none", ignorable, tag)


def int8(versions: str, *, default: int = 0, ignorable: bool = False, tag: int = -1) -> Any:
    """A signed byte."""
    return Field(INT8, versions, default, "none", ignorable, tag)


def int16(versions: str, *, default: int = 0, ignorable: bool = False, tag: int = -1) -> Any:
    """Two bytes, signed."""
    return Field(INT16, versions, default, "none", ignorable, tag)


def uint16(versions: str, *, default: int = 0, ignorable: bool = False, tag: int = -1) -> Any:
    """Two bytes, unsigned."""
    return Field(UINT16, versions, default, "none", ignorable, tag)


def int32(versions: str, *, default: int = 0, ignorable: bool = False, tag: int = -1) -> Any:
    """Four bytes, signed."""
    return Field(INT32, versions, default, "none", ignorable, tag)


def uint32(versions: str, *, default: int = 0, ignorable: bool = False, tag: int = -1) -> Any:
    """Four bytes, unsigned."""
    return Field(UINT32, versions, default, "none", ignorable, tag)


def int64(versions: str, *, default: int = 0, ignorable: bool = False, tag: int = -1) -> Any:
    """Eight bytes, signed."""
    return Field(INT64, versions, default, "none", ignorable, tag)


def float64(versions: str, *, default: float = 0.0, ignorable: bool = False, tag: int = -1) -> Any:
    """An IEEE 754 double."""
    return Field(FLOAT64, versions, default, "none", ignorable, tag)


def uuid(versions: str, *, ignorable: bool = False, tag: int = -1) -> Any:
    """Sixteen bytes; all zero is Kafka's "no id". ids.py has the text form."""
    return Field(UUID, versions, ZERO_UUID, "none", ignorable, tag)


def string(
    versions: str,
    *,
    nullable: str = "none",
    default: str | None = "",
    ignorable: bool = False,
    tag: int = -1,
    flexible: bool | None = None,
    secret: bool = False,
) -> Any:
    """UTF-8 of at most 32,767 bytes. `flexible` False keeps the two-byte length in flexible versions; neither
    repr nor errors show the value of a `secret` field.
    """
    return Field(STRING, versions, default, nullable, ignorable, tag, flexible=flexible, secret=secret)


def binary(
    versions: str,
    *,
    nullable: str = "none",
    default: bytes | None = b"",
    ignorable: bool = False,
    tag: int = -1,
    secret: bool = False,
) -> Any:
    """Bytes; any contiguous buffer may be encoded. Neither repr nor errors show the value of a `secret`
    field.
    """
    return Field(BYTES, versions, default, nullable, ignorable, tag, secret=secret)


def record_bytes(versions: str, *, nullable: str = "none", default: bytes | None = b"") -> Any:
    """Record batches, one after another."""
    return Field(RECORDS, versions, default, nullable)


def struct(
    of: type[Struct],
    versions: str,
    *,
    nullable: str = "none",
    ignorable: bool = False,
    default: tuple[()] | None = (),
    tag: int = -1,
) -> Any:
    """A nested struct; by default ``of()``, or null with ``default=None``."""
    return Field(STRUCT, versions, default, nullable, ignorable, tag, struct=of)


def array(
    of: Callable[..., Any],
    versions: str,
    *,
    nullable: str = "none",
    ignorable: bool = False,
    default: tuple[()] | None = (),
    tag: int = -1,
) -> Any:
    """A list of structs (`of` is their class) or of a plain type (`of` is its function: ``int32``).

    Empty by default, or null with ``default=None``.
    """
    element = _ELEMENTS.get(of)
    if element is None:
        return Field(ARRAY, versions, default, nullable, ignorable, tag, STRUCT, of)  # type: ignore[arg-type]
    return Field(ARRAY, versions, default, nullable, ignorable, tag, element)


_ELEMENTS: dict[Callable[..., Any], int] = {
    boolean: BOOL,
    int8: INT8,
    int16: INT16,
    uint16: UINT16,
    int32: INT32,
    uint32: UINT32,
    int64: INT64,
    float64: FLOAT64,
    uuid: UUID,
    string: STRING,
    binary: BYTES,
}


class Declaration(type):
    """TimeSlices the fields of a class body into slots, which must exist before the class is created."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        versions: str = "none",
        flexible: str = "none",
        **facts: Any,
    ) -> Declaration:
        """Creates the class; keywords other than the versions become class attributes."""
        fields = []
        for attribute, value in list(namespace.items()):
            if type(value) is Field:
                value.name = attribute
                fields.append(value)
                del namespace[attribute]
        known = version_range(versions), version_range(flexible)
        request = facts.pop("to", None)
        if request is not None:
            known = request.__layout__.versions, request.__layout__.flexible
            namespace["api_key"] = request.api_key
        elif "key" in facts:
            namespace["api_key"] = facts.pop("key")
        namespace.update(facts)
        namespace["__slots__"] = [field.name for field in fields]
        namespace["__layout__"] = Layout(name, tuple(fields), *known)
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **facts: Any) -> None:
        super().__init__(name, bases, namespace)


@dataclass_transform(kw_only_default=True)
class Struct(StructBase, metaclass=Declaration):
    """Base of structs nested in messages. Its versions are those of the message that contains it."""

    if TYPE_CHECKING:
        __layout__: ClassVar[Layout]


class Message(Struct):
    """Base of everything with its own versions: requests, responses, headers and the records of internal
    topics.

    Class keywords: ``versions``, and ``flexible``, the versions with tagged fields and compact lengths
    (KIP-482).
    """


class RequestDeclaration(Declaration):
    """Takes the versions of a request from `API_RANGES`."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **facts: Any
    ) -> RequestDeclaration:
        """Creates the class of the API ``key``."""
        if "key" in facts:
            facts["versions"], facts["flexible"] = API_RANGES[facts["key"]]
        made = super().__new__(mcs, name, bases, namespace, **facts)
        assert isinstance(made, RequestDeclaration)
        return made


class Request(Message, metaclass=RequestDeclaration):
    """A request. Class keywords: ``key``, the API key; ``served_by``, the roles that answer it."""

    if TYPE_CHECKING:
        api_key: ClassVar[int]
    served_by: ClassVar[tuple[str, ...]] = ("broker",)


class Response(Message):
    """A response. ``to=`` names the request's class, whose key and versions it shares."""

    if TYPE_CHECKING:
        api_key: ClassVar[int]


class CoordinatorKey(Message):
    """Key of a record in a coordinator's topic. ``record_type``, its first two bytes, identifies the
    record.
    """

    if TYPE_CHECKING:
        record_type: ClassVar[int]


class CoordinatorValue(Message):
    """Value of a record in a coordinator's topic; its first two bytes are its version."""

    if TYPE_CHECKING:
        record_type: ClassVar[int]


class MetadataRecord(Message):
    """Value of a record in __cluster_metadata. ``key`` identifies the record; it is part of the frame."""

    if TYPE_CHECKING:
        api_key: ClassVar[int]


def fields_of(declared: type[Struct]) -> tuple[Field, ...]:
    """Returns the declared fields, in wire order."""
    fields: tuple[Field, ...] = declared.__layout__.fields
    return fields


def versions_of(declared: type[Message]) -> Versions:
    """Returns lowest and highest version declared."""
    return declared.__layout__.versions
