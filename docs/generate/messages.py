"""Renders the page of the fields of requests and responses from the declarations in `bowstring.protocol`."""

from __future__ import annotations

from collections.abc import Iterator

from bowstring._native.protocol.message_layout import KINDS
from bowstring.protocol.schema import ARRAY, STRUCT, Field, Message, Struct, Versions, fields_of, versions_of
from bowstring.protocol.versions import API_VERSIONS
from docs.generate.apis import heading, purpose
from docs.generate.markdown import table

HEAD = """\
# Messages

The fields of every request and response, by [API](apis.md). Versions are written as Kafka writes them: `3+`
from version 3 on, `0-2` up to version 2. A field with a tag is optional on the wire. `·` marks the fields
of the struct above them.
"""


def render() -> str:
    """The page as Markdown."""
    lines = [HEAD]
    for key in sorted(API_VERSIONS):
        api = API_VERSIONS[key]
        lines += [f"## {heading(api)}", "", purpose(api), ""]
        for message in (api.request, api.response):
            lines += [f"### {message.__name__}", *_table(message)]
    return "\n".join(lines)


def _table(declared: type[Message]) -> Iterator[str]:
    columns = ("field", "type", "versions", "null", "default", "tag")
    return table(columns, _rows(declared, versions_of(declared), ""))


def _rows(declared: type[Struct], within: Versions, indent: str) -> Iterator[tuple[str, ...]]:
    for field in fields_of(declared):
        yield (
            f"{indent}{field.name}",
            type_name(field),
            range_text(field.versions, within),
            range_text(field.nullable, within),
            _default(field),
            str(field.tag) if field.tag >= 0 else "",
        )
        if field.struct is not None:
            yield from _rows(field.struct, within, indent + "· ")


def type_name(field: Field) -> str:
    """The field's type as Kafka writes it: ``int32``, ``[]string``, ``[]MetadataResponseTopic``."""
    element = field.element if field.kind == ARRAY else field.kind
    name = field.struct.__name__ if element == STRUCT and field.struct is not None else KINDS[element]
    return f"[]{name}" if field.kind == ARRAY else name


def range_text(versions: Versions, within: Versions) -> str:
    """Versions as Kafka writes them, ``"3+"`` when open at the end; empty when there are none."""
    lowest, highest = max(versions[0], within[0]), min(versions[1], within[1])
    if lowest > highest:
        return ""
    if highest == within[1]:
        return f"{lowest}+"
    return str(lowest) if lowest == highest else f"{lowest}-{highest}"


def _default(field: Field) -> str:
    if field.default is None:
        return "null"
    return str(field.default) if field.default and isinstance(field.default, (int, float, str)) else ""
