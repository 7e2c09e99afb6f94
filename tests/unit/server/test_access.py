"""Rules of access control on the reactors: Produce, Fetch, sessions, fetches that wait, and what is reported."""

import socket

import pytest

from bowstring._native.access.acl_table import AclTable
from bowstring._native.record.encode import with_producer
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.acls import AclOperation, AclPermissionType, AclResourceType, ResourcePatternType
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import fetch as f
from tests.support.plane_requests import batch, fetch, fetched, only, produce, records_of
from tests.support.served_plane import TOPIC
from tests.support.waiting import FOR_EVER_MS, wait_until

ANONYMOUS = b"User:ANONYMOUS"
READ, WRITE = AclOperation.READ, AclOperation.WRITE
DENIED = Errors.TOPIC_AUTHORIZATION_FAILED.code
UNKNOWN_ID = bytes(15) + b"\x07"
KINDS = ("write", "read", "transaction", "follow")


def rule(
    operation,
    name=TOPIC,
    *,
    resource=AclResourceType.TOPIC,
    pattern=ResourcePatternType.LITERAL,
    principal=ANONYMOUS,
    host=b"*",
    permission=AclPermissionType.ALLOW,
):
    return int(resource), int(pattern), name.encode(), principal, host, int(operation), int(permission)


@pytest.fixture
def access(served):
    """The rules of the plane, none at first."""
    table = AclTable()
    table.is_loaded = True
    served.plane.set_access(table)
    return served.plane


def change(plane, *added, removed=()):
    plane.change_access(list(added), list(removed))
    plane.recheck_access()


def follower_fetch(version, replica_id=2):
    request = fetch(version)
    if version >= 15:
        request.replica_state = f.ReplicaState(replica_id=replica_id, replica_epoch=-1)
    else:
        request.replica_id = replica_id
    return request


@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_who_may_not_write_appends_nothing(client, access, served, version):
    denied = only(client.call(produce(batch(b"x"), version), version))
    assert (denied.error_code, denied.base_offset) == (DENIED, -1)
    change(access, rule(WRITE))
    assert only(client.call(produce(batch(b"a"), version), version)).error_code == 0
    change(access, rule(WRITE, permission=AclPermissionType.DENY))
    assert only(client.call(produce(batch(b"x"), version), version)).error_code == DENIED
    assert served.logs[TOPIC, 0].log_end_offset == 1


@pytest.mark.parametrize("version", [4, 11, 12, 13, 17])
def test_who_may_not_read_gets_nothing(client, access, version):
    change(access, rule(WRITE))
    client.call(produce(batch(b"a"), 9), 9)
    denied = fetched(client.call(fetch(version), version))
    assert (denied.error_code, denied.high_watermark, denied.log_start_offset) == (DENIED, -1, -1)
    assert not denied.records
    change(access, rule(READ, "fli", pattern=ResourcePatternType.PREFIXED))
    assert records_of(fetched(client.call(fetch(version), version)).records) == [(0, b"a")]


def test_names_that_do_not_exist_are_denied_and_ids_are_unknown(client, access):
    unknown = "nowhere"
    assert only(client.call(produce(batch(b"x"), 9, topic=unknown), 9)).error_code == DENIED
    assert fetched(client.call(fetch(12, topic=unknown), 12)).error_code == DENIED
    unknown_id = Errors.UNKNOWN_TOPIC_ID.code
    assert only(client.call(produce(batch(b"x"), 13, topic_id=UNKNOWN_ID), 13)).error_code == unknown_id
    assert fetched(client.call(fetch(13, topic_id=UNKNOWN_ID), 13)).error_code == unknown_id
    change(access, rule(READ, "*"), rule(WRITE, "*"))
    absent = Errors.UNKNOWN_TOPIC_OR_PARTITION.code
    assert only(client.call(produce(batch(b"x"), 9, topic=unknown), 9)).error_code == absent
    assert fetched(client.call(fetch(12, topic=unknown), 12)).error_code == absent


def test_without_acks_a_denial_ends_the_connection(client, access):
    client.send(produce(batch(b"x"), 9, acks=0), 9)
    assert client.closed()


@pytest.mark.parametrize("version", [11, 13])
def test_transactional_batches_need_the_transactional_id(client, access, version):
    change(access, rule(WRITE))

    def answer(transactional_id):
        request = produce(with_producer(batch(b"a"), 7, 0, 0, transactional=True), version)
        request.transactional_id = transactional_id
        return only(client.call(request, version)).error_code

    refused = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.code
    assert answer("mine") == answer(None) == refused
    change(access, rule(WRITE, "other", resource=AclResourceType.TRANSACTIONAL_ID))
    assert answer("mine") == refused
    assert access.denied_access()[KINDS.index("transaction")] == 2


def test_followers_need_cluster_action(client, access):
    change(access, rule(READ))
    for version in (11, 12, 17):
        assert fetched(client.call(follower_fetch(version), version)).error_code == DENIED
    unknown = follower_fetch(13)
    unknown.topics[0].topic_id = UNKNOWN_ID
    assert fetched(client.call(unknown, 13)).error_code == DENIED
    change(
        access,
        rule(AclOperation.CLUSTER_ACTION, "kafka-cluster", resource=AclResourceType.CLUSTER),
        removed=[rule(READ)],
    )
    for version in (11, 12, 17):
        assert fetched(client.call(follower_fetch(version), version)).error_code != DENIED
    assert fetched(client.call(fetch(12), 12)).error_code == DENIED


def test_a_permission_is_withdrawn_within_a_session(client, access, served):
    change(access, rule(READ), rule(WRITE))
    client.call(produce(batch(b"a"), 9), 9)
    opening = fetch(13)
    opening.session_epoch = 0
    session = client.call(opening, 13)
    assert session.session_id > 0

    def next_one(epoch):
        return client.call(
            f.FetchRequest(session_id=session.session_id, session_epoch=epoch, max_bytes=1 << 20), 13
        )

    assert next_one(1).error_code == 0
    change(access, removed=[rule(READ)])
    assert fetched(next_one(2)).error_code == DENIED
    change(access, rule(READ))
    assert records_of(fetched(next_one(3)).records) == [(0, b"a")]


def test_a_fetch_that_waits_loses_its_permission(client, access, served):
    change(access, rule(READ))
    client.send(fetch(12, max_wait_ms=FOR_EVER_MS), 12)
    served.await_waiting()
    change(access, removed=[rule(READ)])
    assert fetched(client.receive(1, 12)).error_code == DENIED


def test_a_fetch_that_waits_goes_on_while_it_is_allowed(client, access, served):
    change(access, rule(READ), rule(WRITE))
    client.send(fetch(12, max_wait_ms=FOR_EVER_MS), 12)
    served.await_waiting()
    change(access, rule(READ, "other"))
    writer = served.client()
    assert only(writer.call(produce(batch(b"a"), 9), 9)).error_code == 0
    assert records_of(fetched(client.receive(1, 12)).records) == [(0, b"a")]


def test_hosts_are_told_apart(client, access, served):
    change(access, rule(READ, host=b"127.0.0.2"))
    other = served.client()
    other.socket.close()
    other.socket = socket.create_connection(("127.0.0.1", served.port), source_address=("127.0.0.2", 0))
    assert fetched(client.call(fetch(12), 12)).error_code == DENIED
    assert fetched(other.call(fetch(12), 12)).error_code == 0


def test_other_rules_replace_all(client, access):
    change(access, rule(READ))
    assert fetched(client.call(fetch(12), 12)).error_code == 0
    table = AclTable()
    access.set_access(table)
    assert fetched(client.call(fetch(12), 12)).error_code == DENIED, "it is not loaded yet"
    table.allows_without_rules = True
    table.is_loaded = True
    access.set_access(table)
    assert fetched(client.call(fetch(12), 12)).error_code == 0


def test_a_topic_of_the_same_name_is_looked_up_anew(client, access, served):
    change(access, rule(READ))
    assert fetched(client.call(fetch(12), 12)).error_code == 0
    served.plane.remove_topic(TOPIC)
    served.add_topic("elsewhere", bytes(15) + b"\x01", 1)
    assert fetched(client.call(fetch(12, topic="elsewhere"), 12)).error_code == DENIED


def test_denials_are_counted_and_reported_once_a_minute(client, access):
    for _ in range(5):
        client.call(produce(batch(b"x"), 9), 9)
    client.call(fetch(12, topic="secret"), 12)
    assert access.denied_access() == (5, 1, 0, 0)
    found = []
    wait_until(lambda: found.extend(access.take_access()[0]) or len(found) >= 2)
    host = "127.0.0.1"
    anonymous = "User:ANONYMOUS"
    assert (anonymous, host, KINDS.index("read"), "secret", False) in found
    written = (anonymous, host, KINDS.index("write"), TOPIC, False)
    assert 1 <= found.count(written) <= 2, "a minute may begin meanwhile"
    assert access.take_access() == ([], 0)


def test_what_is_allowed_is_reported_for_an_audit(client, access):
    change(access, rule(READ))
    client.call(fetch(12), 12)
    assert access.take_access() == ([], 0)
    access.report_allowed_access(True)
    change(access, rule(READ, "other"))
    for _ in range(3):
        client.call(fetch(12), 12)
    found, dropped = access.take_access()
    assert set(found) == {("User:ANONYMOUS", "127.0.0.1", KINDS.index("read"), TOPIC, True)}
    assert (len(found) <= 2, dropped) == (True, 0)


def test_reports_that_nobody_takes_are_bounded(client, access):
    for n in range(4200):
        client.send(fetch(12, topic=f"t{n}"), 12)
        if n % 100 == 99:
            for _ in range(100):
                client.receive(1, 12)
    found, dropped = access.take_access()
    assert (len(found), dropped) == (4096, 104)


def test_every_version_has_a_check(client, access):
    assert (API_VERSIONS[0].highest, API_VERSIONS[1].highest) == (13, 18), (
        "does the new version name topics otherwise?"
    )
