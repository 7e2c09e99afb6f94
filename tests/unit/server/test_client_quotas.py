"""Client quotas of a data plane: what exceeds one is answered at once, and its connection waits (KIP-219)."""

import math
import time

import pytest

from bowstring._native.server.plane_quotas import DEFAULT, FETCH, PRODUCE, REQUEST, PlaneQuotas
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.plane_requests import batch, fetch, fetched, only, produce, records_of
from tests.support.readable import readable
from tests.support.served_plane import Served
from tests.support.waiting import wait_until

USER = "ANONYMOUS"
VALUE = b"x" * 10_000
SHORT_S = 0.03
HOUR_MS = 3_600_000
# Longer than a slow machine takes between two requests of a test.
IDLE_MS = 1_000


@pytest.fixture(params=[1, 2], ids=["one-reactor", "two-reactors"])
def served(tmp_path, request):
    """Samples of 100 ms, of which two are a window: 10 kB are 100 kB/s then."""
    served = Served(tmp_path, reactors=request.param, quota_samples=2, quota_window_ms=100)
    served.quotas = PlaneQuotas(served.plane)
    yield served
    served.close()


def named(served, client_id):
    client = served.client()
    client.client_id = client_id
    return client


def send(client, *, version=9, acks=1, value=VALUE):
    return client.call(produce(batch(value), version, acks=acks), version).throttle_time_ms


def muted(client):
    """Whether a further request is not answered, and later."""
    client.send(produce(batch(b"x"), 9), 9)
    return not readable(client.socket, SHORT_S)


def use_of(served):
    return {each[:3]: each[3:] for each in served.quotas.rates(100)}


def test_without_quotas_nobody_waits(served):
    assert send(served.client()) == 0
    assert served.quotas.rates(10) == []
    assert not served.quotas.limits_time


@pytest.mark.parametrize("bound", [math.inf, math.nan, 1e308])
@pytest.mark.parametrize("kind", [PRODUCE, REQUEST])
def test_a_quota_that_limits_nothing(served, kind, bound):
    served.quotas.set([(kind, USER, None, bound)])
    client = served.client()
    assert [send(client) for _ in range(3)] == [0, 0, 0]


def test_the_smallest_quota_gives_a_time_that_answers_can_say(served):
    served.quotas.set([(PRODUCE, USER, None, 5e-324)])
    assert 1000 < send(served.client()) < 1 << 31


def test_a_producer_waits_as_long_as_it_exceeds_its_quota(served):
    served.quotas.set([(PRODUCE, USER, None, 50_000.0)])
    client = served.client()
    began = time.monotonic()
    throttle_ms = send(client)
    assert 80 <= throttle_ms <= 120, "twice the quota in 100 ms, and some bytes of the request"
    send(client, value=b"x")
    assert time.monotonic() - began >= throttle_ms / 1000 - 0.01, "a reactor reads the clock once in a pass"
    ((key, (bound, _, throttles, throttled_ms)),) = use_of(served).items()
    assert key == (PRODUCE, USER, "")
    assert bound == 50_000
    assert throttles >= 1
    assert throttled_ms >= throttle_ms


def test_only_the_connection_that_exceeds_waits(served):
    served.quotas.set([(PRODUCE, None, "greedy", 1.0)])
    greedy, other = named(served, "greedy"), named(served, "other")
    assert send(greedy) > HOUR_MS / 100
    assert muted(greedy)
    assert send(other) == 0
    assert send(other) == 0


def test_what_a_muted_connection_sends_is_kept_in_order(served):
    served.quotas.set([(PRODUCE, None, "greedy", 50_000.0)])
    client = named(served, "greedy")
    sent = [b"%d" % i + VALUE for i in range(5)]
    for value in sent:
        client.send(produce(batch(value), 9), 9)
    answers = [only(client.receive(0, 9)) for _ in sent]
    assert [each.base_offset for each in answers] == list(range(5))
    assert {each.error_code for each in answers} == {0}
    read = fetched(named(served, "reader").call(fetch(11), 11))
    assert [value for _, value in records_of(read.records)] == sent


def test_a_producer_without_answers_waits_too(served):
    served.quotas.set([(PRODUCE, None, "greedy", 1.0)])
    client = named(served, "greedy")
    client.send(produce(batch(VALUE), 9, acks=0), 9)
    wait_until(lambda: served.logs["flights", 0].log_end_offset == 1)
    assert muted(client)


def connections(served):
    return served.plane.counters()["connections"]


def test_a_muted_client_that_leaves_keeps_no_connection(served):
    served.quotas.set([(PRODUCE, None, "greedy", 1.0)])
    client = named(served, "greedy")
    assert send(client) > HOUR_MS / 100
    client.close()
    wait_until(lambda: connections(served) == 0)


def test_what_a_muted_client_has_sent_counts_although_it_leaves(served):
    served.quotas.set([(PRODUCE, None, "greedy", 50_000.0)])
    client = named(served, "greedy")
    for _ in range(3):
        client.send(produce(batch(VALUE), 9, acks=0), 9)
    wait_until(lambda: served.logs["flights", 0].log_end_offset >= 1)
    client.close()
    wait_until(lambda: served.logs["flights", 0].log_end_offset == 3)
    wait_until(lambda: connections(served) == 0)


def test_a_throttle_is_no_idle_time(tmp_path):
    served = Served(tmp_path, connections_max_idle_ms=IDLE_MS, quota_samples=2, quota_window_ms=100)
    served.quotas = PlaneQuotas(served.plane)
    served.quotas.set([(PRODUCE, None, "greedy", 4_000.0)])
    client = named(served, "greedy")
    assert send(client) > 2 * IDLE_MS
    assert muted(client)
    assert only(client.receive(0, 9)).error_code == 0
    assert client.closed(), "it is idle now"
    served.close()


def test_a_muted_client_that_leaves_is_idle_although_it_has_sent_requests(tmp_path):
    """Its throttle may last for days."""
    served = Served(tmp_path, connections_max_idle_ms=IDLE_MS, quota_samples=2, quota_window_ms=100)
    served.quotas = PlaneQuotas(served.plane)
    served.quotas.set([(PRODUCE, None, "greedy", 1.0)])
    client = named(served, "greedy")
    assert send(client) > HOUR_MS / 100
    client.send(produce(batch(VALUE), 9, acks=0), 9)
    client.close()
    wait_until(lambda: connections(served) == 0)
    served.close()


def test_a_fetch_beyond_the_quota_is_answered_empty_and_reads_on_later(served):
    producer = named(served, "producer")
    for _ in range(4):
        send(producer)
    served.quotas.set([(FETCH, None, "reader", 100_000.0)])
    reader = named(served, "reader")
    read, throttles, offset = [], 0, 0
    while len(read) < 4:
        answer = reader.call(fetch(12, offset=offset, partition_max_bytes=1), 12)
        if answer.throttle_time_ms:
            throttles += 1
            assert answer.responses == []
            assert answer.session_id == 0
        else:
            read += records_of(fetched(answer).records)
            offset = len(read)
    assert [each for each, _ in read] == list(range(4))
    assert throttles


def test_a_session_goes_on_after_an_empty_answer(served):
    producer = named(served, "producer")
    send(producer)
    served.quotas.set([(FETCH, None, "reader", 1e9)])
    reader = named(served, "reader")
    first = reader.call(fetch(12, session_epoch=0), 12)
    assert first.session_id
    send(producer)
    served.quotas.set([(FETCH, None, "reader", 90_000.0)])
    epoch, read = 1, []
    while not read:
        request = fetch(12, offset=1, session_id=first.session_id, session_epoch=epoch, partition_max_bytes=1)
        answer = reader.call(request, 12)
        assert (answer.error_code, answer.session_id) == (0, first.session_id)
        epoch += 1
        if answer.responses:
            read = records_of(fetched(answer).records)
    assert [offset for offset, _ in read] == [1]


def test_a_session_that_another_request_takes_over_stays(tmp_path):
    """Its waiting request is answered then, whatever the quota."""
    served = Served(tmp_path)
    send(named(served, "producer"))
    PlaneQuotas(served.plane).set([(FETCH, None, "reader", 1.0)])
    first, second = named(served, "reader"), named(served, "reader")
    session_id = first.call(fetch(12, session_epoch=0), 12).session_id
    assert session_id
    waits = {"max_wait_ms": HOUR_MS, "min_bytes": 1 << 20, "session_id": session_id}
    second.send(fetch(12, offset=1, session_epoch=1, **waits), 12)
    third = named(served, "reader")
    while served.plane.counters()["timers"] == 0 and not readable(second.socket, 0):
        pass
    answer = third.call(fetch(12, session_id=session_id, session_epoch=2), 12)
    assert second.receive(1, 12).session_id == session_id
    assert answer.session_id == session_id
    served.close()


def test_a_batch_that_is_larger_than_the_quota_passes_alone(served):
    send(named(served, "producer"))
    served.quotas.set([(FETCH, None, "reader", 10.0)])
    reader = named(served, "reader")
    answer = reader.call(fetch(12), 12)
    assert len(records_of(fetched(answer).records)) == 1
    again = reader.call(fetch(12), 12)
    assert again.responses == []
    assert again.throttle_time_ms > 1000


def test_followers_have_no_client_quota(served):
    send(named(served, "producer"))
    served.quotas.set([(FETCH, DEFAULT, None, 1.0)])
    client = served.client()
    for _ in range(3):
        assert client.call(fetch(12, replica_id=5), 12).throttle_time_ms == 0


def test_the_time_for_requests_is_limited(served):
    served.quotas.set([(REQUEST, DEFAULT, None, 1e-6)])
    assert served.quotas.limits_time
    client = served.client()
    began = time.monotonic()
    assert send(client) == 100, "at most a sample"
    assert client.call(fetch(12), 12).throttle_time_ms == 100
    assert time.monotonic() - began >= 0.09


def test_time_without_answers_is_not_limited(served):
    served.quotas.set([(REQUEST, DEFAULT, None, 1e-6)])
    client = served.client()
    client.send(produce(batch(b"x"), 9, acks=0), 9)
    client.send(produce(batch(b"y"), 9, acks=0), 9)
    wait_until(lambda: served.logs["flights", 0].log_end_offset == 2)


def test_the_most_specific_quota_counts(served):
    levels = [
        (USER, "app"), (USER, DEFAULT), (USER, None), (DEFAULT, "app"), (DEFAULT, DEFAULT), (DEFAULT, None),
        (None, "app"), (None, DEFAULT),
    ]  # fmt: skip
    shared_by = [(USER, "app"), (USER, "app"), (USER, "")] * 2 + [("", "app")] * 2
    client = named(served, "app")
    while levels:
        served.quotas.set([(PRODUCE, *names, 1e9 + i) for i, names in enumerate(levels)])
        send(client)
        assert use_of(served)[(PRODUCE, *shared_by[-len(levels)])][0] == 1e9
        levels.pop(0)
    served.quotas.set([])
    assert send(client) == 0


def test_a_client_without_an_id_has_its_users_quota_only(served):
    served.quotas.set([(PRODUCE, None, DEFAULT, 1.0)])
    client = named(served, None)
    assert send(client) == 0
    served.quotas.set([(PRODUCE, None, DEFAULT, 1.0), (PRODUCE, USER, None, 1.0)])
    assert send(client) > 0


def test_clients_of_a_user_share_its_quota(served):
    served.quotas.set([(PRODUCE, USER, None, 150_000.0)])
    first, second = named(served, "a"), named(served, "b")
    assert send(first) == 0
    waited = 0
    while not waited:  # a slow machine may need more than two within a window
        waited = send(second)
    assert len(served.quotas.rates(10)) == 1


def test_a_changed_quota_counts_for_the_next_request(served):
    served.quotas.set([(PRODUCE, None, "app", 1e9)])
    client = named(served, "app")
    assert send(client) == 0
    served.quotas.set([(PRODUCE, None, "app", 1.0)])
    assert send(client) > 1000
    served.quotas.set([])
    assert muted(client), "a wait that has begun is not cut short"
    assert send(named(served, "app")) == 0


def test_new_client_ids_take_bounded_memory(served):
    served.quotas.set([(PRODUCE, None, DEFAULT, 1e9)])
    client = served.client()
    for i in range(300):
        client.client_id = f"client-{i}"
        send(client, value=b"x")
    assert len(served.quotas.rates(1000)) == 300
    assert len(served.quotas.rates(10)) == 10


def test_an_answer_of_the_control_thread_mutes_as_well(served):
    client = served.client()
    client.send(ApiVersionsRequest(), 3)
    requests = []
    wait_until(lambda: requests.extend(served.plane.take_requests()) or requests)
    (request,) = requests
    served.plane.reply(request.connection_id, request.slot, b"\0\0\0\1", throttle_ms=HOUR_MS)
    assert client.read_frame() == b"\0\0\0\1"
    client.send(produce(batch(b"x"), 9), 9)
    assert not readable(client.socket, SHORT_S)
    client.close()


def test_control_threads_uses_count_for_the_same_entities(served):
    served.quotas.set([(REQUEST, USER, None, 10.0), (FETCH, USER, None, 1e6)])
    assert served.quotas.limits_bytes
    served.quotas.note_time(USER, "app", 1_000_000)
    assert served.quotas.use_time(USER, "app", 20_000_000) == 100
    assert served.quotas.use_bytes(USER, "app", 10_000) == 0
    assert served.quotas.use_bytes("other", "app", 10_000_000) == 0
    assert set(use_of(served)) == {(REQUEST, USER, ""), (FETCH, USER, "")}


def test_a_remembered_client_follows_the_rules(served):
    def waits(client_id="app"):
        return served.quotas.use_time(USER, client_id, 20_000_000) > 0

    assert not waits()
    served.quotas.set([(REQUEST, None, "app", 1.0)])
    assert waits() and not waits("other")
    served.quotas.set([(REQUEST, None, "app", 1e6)])
    assert not waits()
    for number in range(2000):  # more than are remembered
        served.quotas.note_time(USER, f"client-{number}", 1)
    served.quotas.set([(REQUEST, USER, None, 1.0)])
    assert waits() and waits("other")
    served.quotas.set([])
    assert not waits()


def test_a_stop_ends_muted_connections(tmp_path):
    served = Served(tmp_path)
    PlaneQuotas(served.plane).set([(PRODUCE, DEFAULT, None, 1.0)])
    client = served.client()
    assert send(client) > 1000
    served.plane.stop()
    assert client.closed()
    served.close()


def test_long_names_count_like_others(served):
    served.quotas.set([(REQUEST, None, DEFAULT, 1.0)])
    for client_id in ("short", "x" * 1100, "é" * 600, "x" * 32_000):
        waits_ms = [served.quotas.use_time(USER, client_id, 20_000_000) for _ in range(3)]
        assert all(waits_ms), client_id
        assert waits_ms == sorted(waits_ms)


def test_long_names_take_a_bounded_amount_of_memory(served):
    """Client ids are what clients choose, also before they have authenticated."""
    served.quotas.set([(FETCH, None, DEFAULT, 1e9)])
    for i in range(600):
        served.quotas.use_bytes(USER, f"{i:03}" + "x" * 32_000, 1)
    names = [len(client_id) for _, _, client_id, *_ in served.quotas.rates(1000)]
    assert 16 << 20 <= sum(names) <= (16 << 20) + 32_767
    assert names.count(0) == 1, "the others share a rate"
