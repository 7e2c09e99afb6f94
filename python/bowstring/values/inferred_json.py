"""Infers the schema of JSON values: from a sample for `bowstring.read(topic, value="json")`, from columns for
`bowstring.write(topic, table, value="json")`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from bowstring.values.errors import ValueSchemaError
from bowstring.values.json_format import Json

_INT64 = range(-(2**63), 2**63)
_DIGITS_MAX = 38
_WORDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}

Kind = Any
"""None before anything but null is seen; bool, int, float, str or _BigInt; [Kind] for a list, {name: Kind}
for an object."""


class _BigInt:
    """Whole numbers beyond 64 bits."""


def infer_json(values: Iterable[bytes | None], topic: str) -> Json:
    """Returns the format that fits a sample of values.

    Whole numbers become int64, with fractions among them double, beyond 64 bits decimal128(38, 0).
    Everything is nullable. What is null in the whole sample is a string, and so are the items of lists that
    are always empty.

    Args:
        values: the sample; null, and what is not JSON, is left out.
        topic: for errors.

    Raises:
        ValueSchemaError: no value of the sample is a JSON object, or a field has several types.
    """
    found: Kind = None
    count = 0
    for value in values:
        if value is None:
            continue
        count += 1
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            found = _merged(found, document, "")
    if count and found is None:
        raise ValueSchemaError(
            f'topic {topic!r}: none of {count} values is a JSON object, so value="json" does not fit; '
            "read the bytes without value="
        )
    return Json(pa.schema(list(_type(found or {}))))


def json_of_columns(columns: pa.Schema) -> Json:
    """Returns the format that encodes columns.

    Args:
        columns: of any layout: views, large ones and dictionaries become plain types.

    Raises:
        ValueSchemaError: JSON cannot represent a column.
    """
    return Json(pa.schema([pa.field(field.name, _plain(field.type)) for field in columns]))


def _plain(kind: Any) -> Any:
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_struct(kind):
        return pa.struct([pa.field(part.name, _plain(part.type)) for part in kind])
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if any(is_list(kind) for is_list in (types.is_list, types.is_large_list, types.is_fixed_size_list)):
        return pa.list_(_plain(kind.value_type))
    plain = (
        (types.is_large_string, pa.string()),
        (types.is_string_view, pa.string()),
        (types.is_large_binary, pa.binary()),
        (types.is_binary_view, pa.binary()),
        (types.is_float16, pa.float32()),
        (types.is_date64, pa.date32()),
    )
    return next((found for check, found in plain if check(kind)), kind)


def _merged(kind: Kind, value: Any, path: str) -> Kind:
    """Returns the kind that also fits a value."""
    if value is None:
        return kind
    if isinstance(value, dict):
        if not isinstance(kind, dict | None):
            raise _mixed(kind, value, path)
        fields = kind or {}
        for name, each in value.items():
            fields[name] = _merged(fields.get(name), each, f"{path}.{name}" if path else name)
        return fields
    if isinstance(value, list):
        if not isinstance(kind, list | None):
            raise _mixed(kind, value, path)
        item = kind[0] if kind else None
        for each in value:
            item = _merged(item, each, f"{path}[]")
        return [item]
    given: Kind = type(value)
    if given is int and value not in _INT64:
        given = _BigInt if len(str(abs(value))) <= _DIGITS_MAX else float
    if kind is None or kind is given:
        return given
    numbers = (int, _BigInt, float)
    if isinstance(kind, list | dict) or kind not in numbers or given not in numbers:
        raise _mixed(kind, value, path)
    return numbers[max(numbers.index(kind), numbers.index(given))]


def _mixed(kind: Kind, value: Any, path: str) -> ValueSchemaError:
    before = dict if isinstance(kind, dict) else list if isinstance(kind, list) else kind
    was, is_now = (_WORDS.get(each, "a number") for each in (before, type(value)))
    return ValueSchemaError(
        f'{path} is {was} in one record and {is_now} in another, so value="json" does not fit; give a schema '
        "without that field: value=bowstring.Json(schema)"
    )


def _type(kind: Kind) -> Any:
    if isinstance(kind, dict):
        return pa.struct([pa.field(name, _type(each)) for name, each in kind.items()])
    if isinstance(kind, list):
        return pa.list_(_type(kind[0]))
    simple = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), _BigInt: pa.decimal128(_DIGITS_MAX, 0)}
    return simple.get(kind, pa.string())
