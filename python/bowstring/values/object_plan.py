"""Plans how the rows of columns become Python objects, equal to those of Arrow's `to_pylist()`."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bowstring.values.decoder_arrays import storage_type

if TYPE_CHECKING:
    from bowstring._native.values.column_objects import ObjectPlan

# In the order of object_kinds.Kind.
_NOTHING, _BOOLEAN, _SIGNED, _UNSIGNED, _REAL, _TEXT, _BYTES, _DECIMAL, _LIST, _MAP, _STRUCT = range(11)
_MICROSECONDS = {"s": 10**6, "ms": 10**3, "us": 1}
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()

Convert = Callable[[Any], Any]


def object_plan(data_type: pa.DataType, name: str = "") -> ObjectPlan:
    """Returns the plan of a type's objects, see ColumnObjects. Maps become dicts.

    Args:
        data_type: of the column, one that `describe` supports.
        name: of the struct's field.
    """
    types = pa.types
    kind = storage_type(data_type)
    if types.is_struct(kind):
        parts = [object_plan(field.type, field.name) for field in kind]
        return _STRUCT, 0, sys.intern(name), None, parts
    if types.is_list(kind):
        return _LIST, 0, sys.intern(name), None, [object_plan(kind.value_type)]
    if types.is_map(kind):
        return _MAP, 0, sys.intern(name), None, [object_plan(kind.key_type), object_plan(kind.item_type)]
    scale = kind.scale if types.is_decimal128(kind) else 0
    return _leaf(kind), scale, sys.intern(name), _convert(data_type), []


def _leaf(kind: pa.DataType) -> int:
    types = pa.types
    checks = (
        (types.is_null, _NOTHING),
        (types.is_boolean, _BOOLEAN),
        (types.is_unsigned_integer, _UNSIGNED),
        (types.is_floating, _REAL),
        (types.is_string, _TEXT),
        (types.is_binary, _BYTES),
        (types.is_fixed_size_binary, _BYTES),
        (types.is_decimal128, _DECIMAL),
    )
    # Dates, times and durations are stored as integers, and converted.
    return next((code for check, code in checks if check(kind)), _SIGNED)


def _convert(data_type: pa.DataType) -> Convert | None:
    """Returns what makes the object of a stored integer or float; None: that is the object."""
    types = pa.types
    if types.is_dictionary(data_type):
        return _convert(data_type.value_type)
    if types.is_float16(data_type):
        return lambda number: pa.scalar(number, pa.float32()).cast(data_type).as_py()
    if types.is_date(data_type):
        return lambda days: datetime.date.fromordinal(_EPOCH_DAY + days)
    return _temporal(data_type) if types.is_temporal(data_type) else None


def _temporal(data_type: pa.DataType) -> Convert:
    factor = _MICROSECONDS.get(data_type.unit)
    if factor is None:  # nanoseconds, for which Arrow may use pandas
        return lambda count: pa.scalar(count, data_type).as_py()
    if pa.types.is_timestamp(data_type):
        return _moment(data_type)
    if pa.types.is_duration(data_type):
        return lambda count: datetime.timedelta(microseconds=count * factor)
    return _time_of_day(factor)


def _moment(data_type: pa.TimestampType) -> Convert:
    factor, zone = _MICROSECONDS[data_type.unit], data_type.tz
    delta = datetime.timedelta
    if zone is None:
        epoch = datetime.datetime(1970, 1, 1)
        return lambda count: epoch + delta(microseconds=count * factor)
    found = pa.lib.string_to_tzinfo(zone)
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    if zone == "UTC":
        there = start.astimezone(found)
        return lambda count: there + delta(microseconds=count * factor)
    return lambda count: (start + delta(microseconds=count * factor)).astimezone(found)


def _time_of_day(factor: int) -> Convert:
    midnight = datetime.datetime(1970, 1, 1)
    return lambda count: (midnight + datetime.timedelta(microseconds=count * factor)).time()
