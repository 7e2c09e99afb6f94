"""A leader names the in-sync replica in a consumer's rack (KIP-392), as Kafka's RackAwareReplicaSelector chooses it."""

import pytest

from tests.support.plane_requests import batch, fetch, fetched, only, produce, records_of
from tests.support.readable import readable
from tests.support.replicated_planes import Planes
from tests.support.served_plane import TOPIC
from tests.support.waiting import FOR_EVER_MS, wait_until

OFFSET_OUT_OF_RANGE = 1
FENCED_LEADER_EPOCH = 74
RACKS = ("a", "b", "b")


@pytest.fixture
def planes(tmp_path):
    made = Planes(tmp_path, wait_max_ms=50)
    made.replicas[0].set_endpoints(endpoints())
    made.replicas[0].set_rack_aware(True)
    made.elect(0, 1)
    assert only(made.client(0).call(produce(batch(b"x"), 9, acks=-1), 9)).error_code == 0
    made.await_equal()
    yield made
    made.close()


def endpoints(racks=RACKS):
    return [(broker, "127.0.0.1", 9000 + broker, rack) for broker, rack in enumerate(racks) if rack != "dead"]


def ask(planes, rack, version=11, **options):
    request = fetch(version, **options)
    request.rack_id = rack
    return fetched(planes.client(0).call(request, version))


def test_a_consumer_is_sent_to_a_replica_in_its_rack(planes):
    answer = ask(planes, "b")
    assert answer.preferred_read_replica in (1, 2)
    assert answer.error_code == 0 and not answer.records
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (1, 1, 0)
    for version in (12, 13, 17):
        assert ask(planes, "b", version).preferred_read_replica in (1, 2)


@pytest.mark.parametrize("rack", ["a", "", "elsewhere", "r" * 300])
def test_the_leader_serves_its_own_rack_and_others_without_a_replica(planes, rack):
    answer = ask(planes, rack)
    assert answer.preferred_read_replica == -1
    assert records_of(answer.records) == [(0, b"x")]


def test_without_the_selector_the_leader_serves_everybody(planes):
    planes.replicas[0].set_rack_aware(False)
    assert records_of(ask(planes, "b").records) == [(0, b"x")]


def test_it_chooses_the_replica_that_has_more(planes):
    planes.replicas[1].follow(TOPIC, 0, leader_epoch=2, leader_id=0)  # without an address it does not fetch
    client = planes.client(0)
    planes.replicas[0].set_isr(TOPIC, 0, [0, 2], ineligible=[1])
    assert only(client.call(produce(batch(b"y"), 9, acks=-1), 9)).error_code == 0
    planes.replicas[0].set_isr(TOPIC, 0, [0, 1, 2])
    assert [ask(planes, "b", offset=1).preferred_read_replica for _ in range(5)] == [2] * 5
    # Not chosen: replica 1, which lacks offset 2; a replica out of sync; a dead one.
    planes.replicas[0].set_isr(TOPIC, 0, [0, 1])
    assert ask(planes, "b", offset=2).preferred_read_replica == -1
    assert ask(planes, "b", offset=0).preferred_read_replica == 1
    planes.replicas[0].set_endpoints(endpoints(("a", "dead", "b")))
    assert ask(planes, "b", offset=0).preferred_read_replica == -1


def test_a_broker_without_an_address_has_a_rack(planes):
    """Clients have several addresses of it; the data plane cannot see which one they reach."""
    planes.replicas[0].set_endpoints([(each, None, 0, rack) for each, rack in enumerate(RACKS)])
    assert ask(planes, "b").preferred_read_replica in (1, 2)
    planes.replicas[1].set_endpoints([(each, None, 0, rack) for each, rack in enumerate(RACKS)])
    response = planes.client(1).call(produce(batch(b"y"), 10, acks=1), 10)
    assert only(response).current_leader.leader_id == 0 and response.node_endpoints == []


def test_errors_come_first(planes):
    planes.elect(0, 2)
    answer = ask(planes, "b", 12, leader_epoch=1)
    assert (answer.error_code, answer.preferred_read_replica) == (FENCED_LEADER_EPOCH, -1)
    answer = ask(planes, "b", 12, offset=9)
    assert (answer.error_code, answer.preferred_read_replica) == (OFFSET_OUT_OF_RANGE, -1)


def test_a_session_names_it_each_time_and_at_once(planes):
    client = planes.client(0)
    request = fetch(12, offset=1, session_epoch=0, max_wait_ms=FOR_EVER_MS)
    request.rack_id = "b"
    response = client.call(request, 12)
    assert fetched(response).preferred_read_replica in (1, 2)
    again = fetch(12, session_id=response.session_id, session_epoch=1, max_wait_ms=FOR_EVER_MS)
    again.topics = []
    again.rack_id = "b"
    assert fetched(client.call(again, 12)).preferred_read_replica in (1, 2)


def test_a_fetch_that_waits_is_sent_on_with_the_records(planes):
    """The rack is kept when no replica in it was in sync at first."""
    planes.replicas[0].set_isr(TOPIC, 0, [0])
    client = planes.client(0)
    request = fetch(12, offset=1, max_wait_ms=FOR_EVER_MS)
    request.rack_id = "b"
    client.send(request, 12)
    assert not readable(client.socket, 0.1)
    planes.replicas[0].set_isr(TOPIC, 0, [0, 1, 2])
    assert only(planes.client(0).call(produce(batch(b"y"), 9, acks=-1), 9)).error_code == 0
    answer = fetched(client.receive(1, 12))
    assert answer.preferred_read_replica in (1, 2) and not answer.records


def test_followers_answer_as_kafka_above_their_high_watermark(planes):
    """Records above a follower's high watermark are not available yet; those it lacks are out of range.

    Kafka answers OFFSET_NOT_AVAILABLE to ListOffsets only.
    """
    planes.replicas[0].set_min_in_sync(TOPIC, 0, 3)
    planes.replicas[0].set_isr(TOPIC, 0, [0])
    assert only(planes.client(0).call(produce(batch(b"y"), 9, acks=1), 9)).error_code == 0
    wait_until(lambda: planes.log(2).log_end_offset == 2)
    reader = planes.client(2)
    for offset, error in ((1, 0), (2, 0), (3, OFFSET_OUT_OF_RANGE)):
        answer = fetched(reader.call(fetch(12, offset=offset), 12))
        assert (answer.error_code, answer.records or b"") == (error, b"")
    assert records_of(fetched(reader.call(fetch(12), 12)).records) == [(0, b"x")]
