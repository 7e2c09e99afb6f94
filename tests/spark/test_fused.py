"""Kernels inside the read of the Spark source."""

import pytest

import bowstring
import bowstring.spark
from bowstring.kernels import find, integer
from tests.support.waiting import HANG_S

CARRIERS = ("UA", "AA", "DL")
FLIGHTS = 1_200


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
def topic(broker):
    name = "fused-flights"
    with bowstring.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(name, 2)
    with bowstring.Producer(broker.bootstrap_servers) as producer:
        for number in range(FLIGHTS):
            known, minutes = flight(number)
            value = b'{"carrier":"%s","delay":%d}' % (known.encode(), minutes)
            producer.send(name, value, partition=number % 2)
        producer.flush(HANG_S)
    return name


@pytest.fixture(params=["spark", "python_spark"])
def any_spark(request):
    """A session with the jar, and one of Spark Connect without."""
    return request.getfixturevalue(request.param)


def test_aggregate(any_spark, broker, topic):
    frame = bowstring.spark.read(
        any_spark,
        topic,
        broker.bootstrap_servers,
        where=late,
        aggregate={
            "flights": "count",
            "total": ("sum", delay),
            "worst": ("max", delay),
            "mean": ("mean", delay),
        },
        by={"carrier": carrier},
    )
    found = {row.carrier: row for row in frame.collect()}
    assert found.keys() == set(CARRIERS)
    for name, row in found.items():
        delays = [m for c, m in map(flight, range(FLIGHTS)) if c == name and m > 15]
        assert (row.flights, row.total, row.worst) == (len(delays), sum(delays), max(delays))
        assert row.mean == pytest.approx(sum(delays) / len(delays))


def test_where_alone_and_nothing_at_all(any_spark, broker, topic):
    servers = broker.bootstrap_servers
    frame = bowstring.spark.read(any_spark, topic, servers, where=late, columns=["offset", "partition"])
    numbers = sorted(2 * row.offset + row.partition for row in frame.collect())
    assert numbers == [n for n in range(FLIGHTS) if flight(n)[1] > 15]
    empty = bowstring.spark.read(
        any_spark,
        topic,
        servers,
        aggregate={"n": "count", "m": ("mean", delay)},
        startingTimestamp=1 << 45,
        startingOffsetsByTimestampStrategy="latest",
    )
    assert [tuple(row) for row in empty.collect()] == [(0, None)]
    plain = bowstring.spark.read(any_spark, [topic], servers, columns="offset", engine="python")
    assert plain.count() == FLIGHTS


def test_the_option_chooses_the_engine(spark, broker, topic, capsys):
    def plan(**options):
        bowstring.spark.read(spark, topic, broker.bootstrap_servers, **options).explain()
        return capsys.readouterr().out

    assert "(Python)" in plan(engine="python")
    assert "columnar" in plan() and "(Python)" not in plan()
    with pytest.raises(Exception, match="columnar or python"):
        plan(engine="steam")
