"""`bowstring cluster top`: a cluster in numbers, from two looks."""

from bowstring.clients.admin.results import BrokerDescription, LogDir, ReplicaSize
from bowstring.clients.records import PartitionInfo, TopicInfo, TopicPartition
from bowstring.operations.cluster_rates import ClusterLook, GroupsLook, cluster_rates

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))
BROKERS = [BrokerDescription(2, "h", 2, None, True), BrokerDescription(1, "h", 1, None, False)]


def topics():
    parts = {
        0: PartitionInfo(0, 1, 0, (1, 2), (1, 2), ()),
        1: PartitionInfo(1, 1, 0, (1, 2), (1,), ()),
        2: PartitionInfo(2, -1, 0, (2,), (2,), (2,)),
    }
    return {"a": TopicInfo("a", bytes(16), False, parts)}


def look(at, ends, sizes, groups=None, before=None):
    directories = None
    if sizes is not None:
        replicas = {place: ReplicaSize(size, 0) for place, size in sizes.items()}
        directories = {1: [LogDir("/d", 100, 25, replicas, None)]}
    return ClusterLook(at, BROKERS, 1, topics(), ends, directories, groups, before)


def test_numbers_are_of_the_time_between_two_looks():
    read = [GroupsLook(0.0, {("g", A0): 5}, 95, 1), GroupsLook(5.0, {("g", A0): 55, ("h", A1): 9}, 40, 2)]
    before = look(10.0, {A0: 100, A1: 0}, {A0: 1_000, A1: 10})
    now = look(12.0, {A0: 300, A1: 10}, {A0: 3_000, A1: 10}, read[1], read[0])
    found = cluster_rates(before, now)
    assert (found.topics, found.partitions, found.offline, found.under_replicated) == (1, 3, 1, 1)
    assert (found.records_in, found.bytes_in, found.records_out) == (105, 1_000, 10)
    assert (found.lag, found.groups, found.controller) == (40, 2, 1)
    first, second = found.brokers
    assert (first.id, first.up, first.leaders, first.replicas, first.out_of_sync) == (1, True, 2, 2, 0)
    assert (first.size, first.disk_used) == (3_010, 0.75)
    assert (second.id, second.up, second.leaders, second.out_of_sync, second.disk_used) == (
        2,
        False,
        0,
        1,
        None,
    )


def test_what_users_may_not_see_is_not_there():
    seen = look(1.0, {A0: 1, A1: 1}, None)
    found = cluster_rates(seen, seen)
    assert (found.bytes_in, found.records_out, found.lag, found.groups) == (None, None, None, None)
    assert {(row.bytes, row.size, row.disk_used) for row in found.brokers} == {(None, None, None)}
