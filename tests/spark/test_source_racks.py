"""format("bowstring") with kafka.client.rack: the replica that the leader names is read (KIP-392)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.fetch import FetchRequest
from bowstring.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.support.fake_cluster import FakeCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def brokers() -> Iterator[FakeCluster]:
    with FakeCluster(3) as cluster:
        cluster.preferred = 2
        cluster.end = 30

        def ends(version: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
            earliest = request.topics[0].partitions[0].timestamp == -2
            found = ListOffsetsPartitionResponse(partition_index=0, offset=0 if earliest else cluster.end)
            topic = ListOffsetsTopicResponse(name=request.topics[0].name, partitions=[found])
            return ListOffsetsResponse(topics=[topic])

        for broker in cluster.brokers.values():
            broker.handlers[ListOffsetsRequest] = ends
        yield cluster


def offsets(spark: SparkSession, brokers: FakeCluster, **options: str) -> list[int]:
    reader = spark.read.format("bowstring").option("kafka.bootstrap.servers", brokers.bootstrap)
    frame = reader.options(assign='{"t":[0]}', **options).load()
    return [row.offset for row in frame.select("offset").collect()]


def fetches(brokers: FakeCluster) -> list[int]:
    return [brokers.asked(number, FetchRequest) for number in (1, 2, 3)]


def test_the_replica_that_the_leader_names_is_read(spark: SparkSession, brokers: FakeCluster) -> None:
    assert offsets(spark, brokers, **{"kafka.client.rack": "here"}) == list(range(30))
    leader, named, other = fetches(brokers)
    assert (leader, other) == (1, 0) and named > 0
    assert {request.rack_id for request in brokers.brokers[2].seen(FetchRequest)} == {"here"}


def test_without_a_rack_it_is_the_leader(spark: SparkSession, brokers: FakeCluster) -> None:
    assert offsets(spark, brokers) == list(range(30))
    assert fetches(brokers)[1:] == [0, 0]


@pytest.mark.parametrize("error", [Errors.OFFSET_OUT_OF_RANGE, Errors.NOT_LEADER_OR_FOLLOWER])
def test_a_replica_that_refuses_is_left(spark: SparkSession, brokers: FakeCluster, error: Errors) -> None:
    brokers.refusals[2] = [error.code]
    assert offsets(spark, brokers, **{"kafka.client.rack": "here"}) == list(range(30))
    leader, named, _ = fetches(brokers)
    assert named == 1 and leader > 1


def test_a_replica_that_is_gone_is_left(spark: SparkSession, brokers: FakeCluster) -> None:
    brokers.preferred = 9
    assert offsets(spark, brokers, **{"kafka.client.rack": "here"}) == list(range(30))
