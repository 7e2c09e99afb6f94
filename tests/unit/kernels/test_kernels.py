"""Kernels over batches give what the same functions give record by record."""

import itertools
import math
import os
import subprocess
import sys
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

import bowstring
from bowstring.kernels import Fused, KernelError, find, integer, kernel
from tests.support.waiting import HANG_S

LIMIT = 40


@kernel
def long(value) -> bool:
    return len(value) > 3


@kernel
def total(value, key) -> int:
    found = 0
    for each in value:
        found += each
    return found + 1000 * len(key)


@kernel
def hour(timestamp, offset) -> int:
    return timestamp // 3_600_000 + offset % 2


@kernel
def share(value, has_value) -> float:
    return len(value) / LIMIT if has_value else -1.0


@kernel
def start(value) -> bytes:
    return value[:2]


@kernel
def known(has_key) -> bool:
    return has_key


@kernel
def word(key) -> str:
    return key[: find(key, b"-")] if find(key, b"-") >= 0 else key


SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "offset": pa.int64(),
        "partition": pa.int32(),
    }
)
letters = st.text(alphabet="ab-xyz", max_size=9).map(str.encode)
records = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.none() | letters,
            "value": st.none() | st.binary(max_size=8),
            "timestamp": st.integers(0, 10**10).map(lambda ms: ms * 1000),
            "offset": st.integers(0, 2**40),
            "partition": st.integers(0, 3),
        }
    ),
    max_size=40,
)


def batch_of(rows, cut=0):
    table = pa.Table.from_pylist(rows, schema=SCHEMA).combine_chunks()
    batch = table.to_batches()[0] if rows else pa.RecordBatch.from_pylist([], schema=SCHEMA)
    return batch.slice(min(cut, batch.num_rows))


def one(function, row):
    """What a kernel says of a record, in plain Python."""
    given_row = {
        "value": row["value"] or b"",
        "key": row["key"] or b"",
        "timestamp": row["timestamp"] // 1000,
        "offset": row["offset"],
        "partition": row["partition"],
        "has_value": row["value"] is not None,
        "has_key": row["key"] is not None,
    }
    found = function(*(given_row[name] for name in function.parameters))
    if function.result == "binary":
        return bytes(found)
    return bytes(found).decode() if function.result == "string" else found


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(records, st.integers(0, 3))
@pytest.mark.parametrize("function", [long, total, hour, share, start, known, word], ids=lambda f: f.name)
def test_over_a_batch_is_one_by_one(function, rows, cut):
    assert function.over(batch_of(rows, cut)).to_pylist() == [one(function, row) for row in rows[cut:]]


AGGREGATES = {
    "records": "count",
    "sum": ("sum", total),
    "least": ("min", share),
    "most": ("max", hour),
    "mean": ("mean", total),
    "keyed": ("sum", known),
}


def expected(rows, where, by):
    groups = defaultdict(list)
    for row in rows:
        if where is None or one(where, row):
            groups[
                tuple(row[each] if isinstance(each, str) else one(each, row) for each in by.values())
            ].append(row)
    if not by and not groups:
        groups[()] = []
    found = []
    for key, members in groups.items():
        sums = [one(total, row) for row in members]
        found.append(
            dict(zip(by, key, strict=True))
            | {
                "records": len(members),
                "sum": sum(sums) if members else None,
                "least": min((one(share, row) for row in members), default=None),
                "most": max((one(hour, row) for row in members), default=None),
                "mean": sum(sums) / len(members) if members else None,
                "keyed": sum(one(known, row) for row in members) if members else None,
            }
        )
    return found


def as_set(rows):
    return sorted(
        repr(sorted((k, f"{v:.9g}" if isinstance(v, float) else v) for k, v in row.items())) for row in rows
    )


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(records, st.lists(st.integers(0, 40), max_size=3))
@pytest.mark.parametrize("by", [{}, {"p": "partition"}, {"w": word, "s": start}, {"key": "key"}], ids=str)
@pytest.mark.parametrize("where", [None, long], ids=str)
def test_aggregates_are_those_of_plain_python(where, by, rows, cuts):
    fused = Fused(where, AGGREGATES, by)
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [batch_of(rows[low:high]) for low, high in itertools.pairwise(bounds)]
    found = fused.finish(fused.partial(part) for part in parts)
    assert found.schema == fused.schema
    assert as_set(found.to_pylist()) == as_set(expected(rows, where, by))
    # Merged in another way it is the same.
    halves = [fused.merge([fused.partial(part)]) for part in parts]
    assert as_set(fused.finish([fused.merge(halves)]).to_pylist()) == as_set(found.to_pylist())


@given(st.binary(max_size=30), st.binary(min_size=1, max_size=3), st.integers(0, 5))
def test_find(data, pattern, begin):
    assert find.py_func(np.frombuffer(data, np.uint8), pattern, begin) == data.find(pattern, begin)


@given(st.integers(-(10**15), 10**15), st.sampled_from([b"", b",", b"}"]))
def test_integer(number, behind):
    assert integer(np.frombuffer(str(number).encode() + behind, np.uint8), 0) == number


def test_a_kernel_is_a_function_and_travels():
    assert long(b"1234") and not long(b"")
    assert repr(long) == "<kernel long(value) -> bool>"
    again = cloudpickle.loads(cloudpickle.dumps(total))
    assert again.digest == total.digest != hour.digest
    assert bowstring.kernel is kernel


def test_large_bytes_and_all_layouts():
    values = [b"x" * 5_000, None, b"", b"yz" * 3_000]

    @kernel
    def whole(value) -> bytes:
        return value

    for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.string()):
        batch = pa.record_batch({"value": pa.array(values, pa.binary()).cast(kind)})
        assert whole.over(batch).to_pylist() == [each or b"" for each in values]


def test_what_does_not_fit_is_said():
    with pytest.raises(KernelError, match="unknown parameter colour"):
        kernel(lambda colour: True)

    def untold(value):
        return 1

    with pytest.raises(KernelError, match="untold needs a return annotation"):
        kernel(untold)
    with pytest.raises(KernelError, match="where needs a kernel that returns bool"):
        Fused(where=total)
    with pytest.raises(KernelError, match="by needs an aggregate"):
        Fused(by={"w": word})
    with pytest.raises(KernelError, match="aggregate\\['x'\\]"):
        Fused(aggregate={"x": ("median", total)})
    with pytest.raises(KernelError, match="must return a number"):
        Fused(aggregate={"x": ("sum", word)})
    with pytest.raises(KernelError, match="names both"):
        Fused(aggregate={"x": "count"}, by={"x": word})
    with pytest.raises(KernelError, match="by\\['x'\\]"):
        Fused(aggregate={"n": "count"}, by={"x": "offset"})


def test_what_does_not_compile_is_said():
    @kernel
    def broken(value) -> int:
        return value.colour

    with pytest.raises(
        KernelError, match=r"kernel broken \(.*test_kernels.py:\d+\) cannot be compiled.*colour"
    ):
        broken.over(batch_of([{"value": b"1"}]))


PROGRAM = """
import pyarrow as pa
from bowstring.kernels import find, kernel, loops
@kernel
def place(value) -> int:
    return find(value, b"needle") + {number}
place.over(pa.record_batch({{"value": pa.array([b"a needle"])}}))
(loop,) = loops._loops.values()
print(sum(loop.stats.cache_hits.values()), sum(loop.stats.cache_misses.values()))
"""


def test_what_is_compiled_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def run(number):
        code = PROGRAM.format(number=number)
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG_S
        ).stdout.split()

    assert run(1) == ["0", "1"]
    assert run(1) == ["1", "0"]
    # Another body is another kernel.
    assert run(2) == ["0", "1"]


def test_no_records_at_all():
    assert Fused(aggregate={"n": "count", "m": ("mean", total)}).finish([]).to_pylist() == [
        {"n": 0, "m": None}
    ]
    assert Fused(aggregate={"n": "count"}, by={"w": word}).finish([]).num_rows == 0
    assert math.isclose(share.over(batch_of([{"value": b"1234"}])).to_pylist()[0], 0.1)


CACHED_APART = """
import sys
import pyarrow as pa
import bowstring
from bowstring.kernels import find, integer

def make(name):
    if name == "a":
        @bowstring.kernel
        def late(value) -> bool:
            return integer(value, find(value, b'"a":') + 4) > 2
    else:
        @bowstring.kernel
        def late(value) -> bool:
            return integer(value, find(value, b'"bb":') + 5) > 6
    return late

batch = pa.record_batch({"value": pa.array([b'{"a":%d,"bb":%d}' % (n, n) for n in range(10)])})
print(*[sum(make(name).over(batch).to_pylist()) for name in sys.argv[1:]])
"""


def test_kernels_of_one_name_cached_by_different_processes(tmp_path):
    """Machine code is linked by name: of two that were cached apart, one must not stand for both."""
    script = tmp_path / "script.py"
    script.write_text(CACHED_APART)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run(*names):
        command = [sys.executable, str(script), *names]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout.split()

    assert run("a") == ["7"] and run("b") == ["3"]
    assert run("a", "b") == ["7", "3"]
