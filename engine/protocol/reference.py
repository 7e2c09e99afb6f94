"""The protocol reference page, derived from the declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bowstring._native.layout import KINDS
from bowstring.engine.protocol.schema import (
    ARRAY,
    LATEST,
    STRUCT,
    Field,
    Message,
    Struct,
    Versions,
    fields_of,
    versions_of,
)
from bowstring.engine.protocol.versions import API_VERSIONS, Api


def render() -> str:
    """The whole page as Markdown: a table of the APIs, then the fields of every request and response."""
    apis = [API_VERSIONS[key] for key in sorted(API_VERSIONS)]
    lines = ["# Protocol reference", "", "| key | API | versions | flexible from | what it does |"]
    lines.append("|---|---|---|---|---|")
    lines += [_row(api) for api in apis]
    for api in apis:
        lines += ["", f"## {api.name} ({api.key})", "", _purpose(api)]
        lines += _message(api.request)
        lines += _message(api.response)
    return "\n".join(lines) + "\n"


def _row(api: Api) -> str:
    flexible = str(api.flexible_from) if api.flexible_from < LATEST else "never"
    versions = f"{api.lowest}-{api.highest}"
    if api.highest_declared > api.highest:
        versions += f" ({api.highest_declared} unstable)"
    return f"| {api.key} | {api.name} | {versions} | {flexible} | {_purpose(api)} |"


def _purpose(api: Api) -> str:
    return (sys.modules[api.request.__module__].__doc__ or "").strip()


def _message(declared: type[Message]) -> Iterator[str]:
    yield from ("", f"### {declared.__name__}", "", "| field | type | versions | null | default | tag |")
    yield "|---|---|---|---|---|---|"
    yield from _fields(declared, versions_of(declared), "")


def _fields(declared: type[Struct], within: Versions, indent: str) -> Iterator[str]:
    for field in fields_of(declared):
        cells = (
            f"{indent}{field.name}",
            type_name(field),
            range_text(field.versions, within),
            range_text(field.nullable, within),
            _default(field),
            str(field.tag) if field.tag >= 0 else "",
        )
        yield f"| {' | '.join(cells)} |"
        if field.struct is not None:
            yield from _fields(field.struct, within, indent + "· ")


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
