"""Kernels inside `bowstring.read`, against an embedded broker."""

import pyarrow as pa
import pytest

import bowstring
from bowstring.kernels import KernelError, find, integer
from tests.support.waiting import HANG_S

CARRIERS = ("UA", "AA", "DL")
FLIGHTS = 2_000


@bowstring.kernel
def carrier(value) -> str:
    at = find(value, b'"carrier":"') + 11
    return value[at : at + 2]


@bowstring.kernel
def delay(value) -> int:
    return integer(value, find(value, b'"delay":') + 8)


@bowstring.kernel
def late(value) -> bool:
    return integer(value, find(value, b'"delay":') + 8) > 15


def flight(number):
    return CARRIERS[number % 3], number % 60 - 20


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker() as broker, bowstring.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("flights", 3)
        with bowstring.Producer(broker.bootstrap_servers, compression="lz4") as producer:
            for number in range(FLIGHTS):
                name, minutes = flight(number)
                value = b'{"carrier":"%s","delay":%d}' % (name.encode(), minutes)
                producer.send("flights", value, partition=number % 2)
            producer.flush(HANG_S)
        yield broker.bootstrap_servers


def test_where_leaves_records_out(servers):
    found = bowstring.read("flights", bootstrap_servers=servers, where=late, columns=["partition", "offset"])
    assert found.schema.names == ["partition", "offset"]
    numbers = sorted(2 * row["offset"] + row["partition"] for row in found.to_pylist())
    assert numbers == [n for n in range(FLIGHTS) if flight(n)[1] > 15]
    schema = pa.schema({"carrier": pa.string(), "delay": pa.int64()})
    typed = bowstring.read("flights", bootstrap_servers=servers, where=late, value=bowstring.Json(schema))
    assert all(row["delay"] > 15 for row in typed.column("value").to_pylist())


@pytest.mark.parametrize("layout", ["binary", "binary_view"])
def test_aggregates(servers, layout):
    found = bowstring.read(
        "flights",
        bootstrap_servers=servers,
        layout=layout,
        where=late,
        aggregate={"flights": "count", "worst": ("max", delay), "mean": ("mean", delay)},
        by={"carrier": carrier, "partition": "partition"},
    )
    for row in found.to_pylist():
        delays = [
            flight(n)[1]
            for n in range(FLIGHTS)
            if flight(n)[0] == row["carrier"] and n % 2 == row["partition"] and flight(n)[1] > 15
        ]
        assert (row["flights"], row["worst"]) == (len(delays), max(delays))
        assert row["mean"] == pytest.approx(sum(delays) / len(delays))
    assert len(found) == 6


def test_only_what_kernels_read_is_fetched(servers):
    found = bowstring.read("flights", bootstrap_servers=servers, aggregate={"records": "count"})
    assert found.to_pylist() == [{"records": FLIGHTS}]
    none = bowstring.read(
        "flights", bootstrap_servers=servers, start="latest", aggregate={"records": "count"}
    )
    assert none.to_pylist() == [{"records": 0}]


def test_a_kernel_that_fails_is_named(servers):
    @bowstring.kernel
    def odd(value) -> bool:
        return value.is_odd()

    with pytest.raises(KernelError, match="kernel odd"):
        bowstring.read("flights", bootstrap_servers=servers, where=odd)
