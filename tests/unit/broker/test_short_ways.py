"""The short ways of the control path under rules and quotas: the same answers, reports and effects as the long way."""

import random
import time
from collections import Counter

import pytest

from bowstring._native.server.plane_quotas import DEFAULT, REQUEST
from bowstring.engine.requests.answers import with_throttle_time
from bowstring.protocol import decode_response, encode_request
from bowstring.protocol.acls import AclOperation as Op
from bowstring.protocol.acls import AclPermissionType, AclResourceType, ResourcePatternType
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import alter_client_quotas as acq
from bowstring.protocol.messages import delete_acls as da
from bowstring.protocol.messages import find_coordinator as fc
from bowstring.protocol.messages import heartbeat as hb
from bowstring.protocol.messages import list_offsets as lo
from bowstring.protocol.messages import metadata as md
from bowstring.protocol.messages import offset_commit as oc
from bowstring.protocol.messages import offset_fetch as of
from tests.support.access import created, deleted, rule, wanted
from tests.support.short_ways import CONFIG, WAYS, SecuredServed
from tests.support.waiting import pause, wait_until

TOPICS = ["t0", "t1", "t2", "u0"]
PARTITIONS = 2
GROUPS = ["g0", "g1", "h0"]
MEMBERS_GROUP = "g0"
USERS, HOSTS = ["alice", "bob"], ["127.0.0.1", "127.0.0.2"]
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
DENY = AclPermissionType.DENY
SENDS = 3


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    made = SecuredServed(tmp_path_factory.mktemp("broker"), **CONFIG)
    for topic in TOPICS:
        made.create_topic(topic, PARTITIONS)
    made.find_coordinators(*GROUPS)
    made.member = made.join(MEMBERS_GROUP)
    yield made
    made.stop()


@pytest.fixture
def served(shared):
    """Without rules and quotas, except those that the test makes."""
    yield shared
    deleted(shared, wanted())
    limit(shared, None)


def limit(served, percentage):
    entity = [acq.EntityData(entity_type="user", entity_name=None)]
    operation = acq.OpData(key="request_percentage", value=percentage or 0.0, remove=percentage is None)
    entry = acq.AlterClientQuotasRequestEntryData(entity=entity, ops=[operation])
    answer = served.ask(acq.AlterClientQuotasRequest(entries=[entry]), 1)
    assert answer.entries[0].error_code == 0
    limits = percentage is not None
    wait_until(lambda: served.engine.dispatcher.limits_time(hb.HeartbeatRequest.api_key) == limits)


def allow_all(served, *principals):
    """Allows everything by rules, so that each decision is looked up."""
    names = {TOPIC: "*", GROUP: "*", CLUSTER: "kafka-cluster"}
    rules = [
        rule(name, f"User:{principal}", Op.ALL, resource=kind)
        for kind, name in names.items()
        for principal in principals or USERS
    ]
    assert {each.error_code for each in created(served, *rules)} == {0}


# ---- requests


def committed(chance, **fields):
    topics = [
        oc.OffsetCommitRequestTopic(
            name=name,
            partitions=[
                oc.OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=chance.randrange(1000),
                    committed_metadata=chance.choice(["", "m"]),
                )
                for index in chance.sample(range(PARTITIONS + 1), chance.randrange(1, PARTITIONS + 1))
            ],
        )
        for name in some(chance, [*TOPICS, "missing"])
    ]
    return oc.OffsetCommitRequest(group_id=chance.choice(GROUPS[1:]), topics=topics, **fields)


def some(chance, names):
    return chance.sample(names, chance.randrange(1, len(names) + 1))


def a_commit(chance, served):
    return committed(chance), chance.choice([7, 8, 9])


def a_fetch(chance, served):
    asked = of.OffsetFetchRequestGroup(group_id=chance.choice(GROUPS), topics=None)
    if chance.random() < 0.8:
        asked.topics = [
            of.OffsetFetchRequestTopics(name=name, partition_indexes=list(range(PARTITIONS)))
            for name in some(chance, TOPICS)
        ]
    version = chance.choice([7, 8, 9, 10])
    if version == 7:
        topics = asked.topics and [
            of.OffsetFetchRequestTopic(name=each.name, partition_indexes=each.partition_indexes)
            for each in asked.topics
        ]
        return of.OffsetFetchRequest(group_id=asked.group_id, topics=topics), version
    for topic in asked.topics or ():
        topic.topic_id = served.engine.metadata.image.topics[topic.name].id
    return of.OffsetFetchRequest(groups=[asked]), version


def a_listing(chance, served):
    at = chance.choice([-1, -1, -2, -3, 1000])
    topics = [
        lo.ListOffsetsTopic(
            name=name,
            partitions=[
                lo.ListOffsetsPartition(partition_index=index, timestamp=at)
                for index in range(chance.choice([0, 1, PARTITIONS + 1]))
            ],
        )
        for name in some(chance, [*TOPICS, "missing"])
    ]
    return lo.ListOffsetsRequest(replica_id=-1, topics=topics), chance.choice([1, 7, 10])


def a_description(chance, served):
    version = chance.choice([1, 5, 9, 10, 12, 13])
    names = None if chance.random() < 0.15 else some(chance, [*TOPICS, "missing", "not/a name"])
    topics = names and [md.MetadataRequestTopic(name=name) for name in names]
    request = md.MetadataRequest(topics=topics)
    if version >= 4:
        request.allow_auto_topic_creation = chance.random() < 0.5
    if version >= 8:
        request.include_topic_authorized_operations = chance.random() < 0.3
    if 8 <= version <= 10:
        request.include_cluster_authorized_operations = chance.random() < 0.2
    return request, version


def a_lookup(chance, served):
    version = chance.choice([1, 3, 4, 6])
    if version < 4:
        return fc.FindCoordinatorRequest(key=chance.choice(GROUPS)), version
    return fc.FindCoordinatorRequest(coordinator_keys=some(chance, GROUPS)), version


def a_heartbeat(chance, served):
    member_id, generation = served.member
    generation += chance.random() < 0.1
    request = hb.HeartbeatRequest(group_id=MEMBERS_GROUP, member_id=member_id, generation_id=generation)
    return request, chance.choice([0, 3, 4])


REQUESTS = [a_commit, a_fetch, a_listing, a_description, a_lookup, a_heartbeat]


def a_rule(chance):
    kind, names = chance.choice(
        [(TOPIC, [*TOPICS, "t", "*"]), (GROUP, [*GROUPS, "g", "*"]), (CLUSTER, ["kafka-cluster"])]
    )
    name = chance.choice(names)
    return rule(
        name,
        chance.choice(["User:*", "User:alice", "User:bob"]),
        chance.choice([Op.READ, Op.DESCRIBE, Op.ALL] if kind is not CLUSTER else [Op.DESCRIBE, Op.CREATE]),
        resource=kind,
        pattern=PREFIXED if name in ("t", "g") else LITERAL,
        host=chance.choice(["*", "*", "*", HOSTS[0], "127.0.0.2/32"]),
        permission=DENY if chance.random() < 0.2 else AclPermissionType.ALLOW,
    )


def change_rules(chance, served, rules):
    """Adds or removes a random rule, sometimes many at once."""
    if rules and chance.random() < 0.3:
        gone = rules.pop(chance.randrange(len(rules)))
        each = da.DeleteAclsFilter(
            resource_type_filter=gone.resource_type,
            resource_name_filter=gone.resource_name,
            pattern_type_filter=gone.resource_pattern_type,
            principal_filter=gone.principal,
            host_filter=gone.host,
            operation=gone.operation,
            permission_type=gone.permission_type,
        )
        assert deleted(served, each)[0].error_code == 0
        return
    added = [a_rule(chance) for _ in range(chance.choice([1, 1, 4]))]
    assert {each.error_code for each in created(served, *added)} == {0}
    rules += added


@pytest.fixture
def taken(served, monkeypatch):
    """How many requests each short way has taken."""
    counts = Counter()
    dispatcher = served.engine.dispatcher

    def counting(name, way):
        def take(self, message):
            is_taken = way(self, message)
            counts[name] += is_taken
            return is_taken

        return take

    for name in WAYS:
        way = getattr(type(dispatcher), name)
        monkeypatch.setattr(type(dispatcher), name, counting(name, way))
    return counts


class Noted:
    """What the authorizer reports of each request."""

    def __init__(self, served, monkeypatch):
        self.rules = served.engine.authorizer.rules
        self.decided = []
        monkeypatch.setattr(self.rules.reports, "audit", self.decided.append)
        monkeypatch.setattr(self.rules.reports, "is_new", lambda decided: False)

    def of(self, ask):
        """Calls `ask`; returns its value, and what was denied and audited meanwhile."""
        before = self.rules.denied()
        self.decided.clear()
        value = ask()
        return value, self.rules.denied() - before, Counter(self.decided)


@pytest.mark.parametrize("audits_all", [False, True], ids=["denials", "all-audited"])
@pytest.mark.parametrize("percentage", [None, 1e6], ids=["no-quota", "a-quota"])
def test_both_ways_answer_alike_under_changing_rules(served, monkeypatch, taken, audits_all, percentage):
    """Bytes of the answers, denials, and what is audited."""
    chance = random.Random(7 + audits_all + 2 * (percentage is None))
    limit(served, percentage)
    noted = Noted(served, monkeypatch)
    monkeypatch.setattr(noted.rules.reports, "audits_allowed", audits_all)
    clients = {(user, host): [served.log_in(user, host) for _ in "sl"] for user in USERS for host in HOSTS}
    leased, rules = served.leased(), []
    allow_all(served)
    allowed = True
    for step in range(400):
        if step == 150:
            deleted(served, wanted())
            allowed = False
        if step % 4 == 0 and not allowed:
            change_rules(chance, served, rules)
        short, long = clients[chance.choice(USERS), chance.choice(HOSTS)]
        request, version = chance.choice(REQUESTS)(chance, served)
        frame = encode_request(request, version, step, chance.choice(["test", "other"]))
        found = [noted.of(lambda frame=frame, short=short: short.exchange(frame)) for _ in range(SENDS)]
        with served.long_way():
            expected = noted.of(lambda frame=frame, long=long: long.exchange(frame))
        assert found == [expected] * SENDS, (step, request, version)
    assert served.leased() - leased > 20 or audits_all
    assert taken["_answer_kept"] > 20 or audits_all
    assert taken["_gather"] > 3 and taken["_answer_encoded"] > 3 and taken["_answer_at_once"] > 30


def test_denied_topics_of_a_commit_have_no_effect_on_the_others(served):
    """Those that may be read are committed, by both ways."""
    names = TOPICS[:3]
    created(served, rule("h0", resource=GROUP), *(rule(name) for name in names[:2]))
    client = served.log_in("alice")
    offset = 100
    for way in ("short", "long"):
        offset += 1
        part = oc.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [oc.OffsetCommitRequestTopic(name=name, partitions=[part]) for name in names]
        request = oc.OffsetCommitRequest(group_id="h0", topics=topics)
        if way == "short":
            answer = client.ask(request, 9)
        else:
            with served.long_way():
                answer = client.ask(request, 9)
        codes = {each.name: each.partitions[0].error_code for each in answer.topics}
        assert codes == {"t0": 0, "t1": 0, "t2": Errors.TOPIC_AUTHORIZATION_FAILED.code}, way
        asked = of.OffsetFetchRequestGroup(group_id="h0", topics=None)
        (held,) = served.ask(of.OffsetFetchRequest(groups=[asked]), 9).groups
        now = {
            topic.name
            for topic in held.topics
            for each in topic.partitions
            if (each.partition_index, each.committed_offset) == (0, offset)
        }
        assert now == {"t0", "t1"}, way


# ---- what ends leases and kept answers


def beat(client, served, version=4):
    member_id, generation = served.member
    request = hb.HeartbeatRequest(group_id=MEMBERS_GROUP, member_id=member_id, generation_id=generation)
    return client.ask(request, version)


def await_lease(client, served):
    before = served.leased()
    wait_until(lambda: beat(client, served).error_code == 0 and served.leased() > before)


def test_a_changed_rule_ends_a_lease(served):
    created(served, rule(MEMBERS_GROUP, resource=GROUP))
    client = served.log_in("alice")
    await_lease(client, served)
    created(served, rule(MEMBERS_GROUP, resource=GROUP, permission=DENY))
    before = served.leased()
    assert Errors.of(beat(client, served).error_code) is Errors.GROUP_AUTHORIZATION_FAILED
    deleted(served, wanted(permission_type=int(DENY)))
    assert beat(client, served).error_code == 0
    assert served.leased() == before
    await_lease(client, served)


def test_a_rule_about_others_costs_one_request(served):
    allow_all(served)
    client = served.log_in("alice")
    await_lease(client, served)
    created(served, rule("elsewhere", "User:carol"))
    before = served.leased()
    assert [beat(client, served).error_code for _ in range(3)] == [0, 0, 0]
    assert served.leased() == before + 2


def test_no_lease_while_each_decision_is_audited(served, monkeypatch):
    allow_all(served)
    client = served.log_in("alice")
    await_lease(client, served)
    monkeypatch.setattr(served.engine.authorizer.rules.reports, "audits_allowed", True)
    created(served, rule("elsewhere", "User:carol"))
    before = served.leased()
    assert [beat(client, served).error_code for _ in range(3)] == [0, 0, 0]
    assert served.leased() == before


def test_who_authenticates_again_begins_without_a_lease(served):
    allow_all(served)
    client = served.log_in("alice")
    await_lease(client, served)
    pause(1.1, "an earlier SaslHandshake does not begin it")
    client.log_in("alice")
    before = served.leased()
    assert beat(client, served).error_code == 0
    assert served.leased() == before
    await_lease(client, served)


def test_a_kept_answer_is_for_those_who_may_do_the_same(served, taken):
    created(served, rule("t0", operation=Op.DESCRIBE, host=HOSTS[0]))
    request = md.MetadataRequest(topics=[md.MetadataRequestTopic(name="t0")])

    def codes(user, host):
        client = served.log_in(user, host)
        return [client.ask(request, 13).topics[0].error_code for _ in range(3)]

    denied = [Errors.TOPIC_AUTHORIZATION_FAILED.code] * 3
    for _ in range(2):
        assert codes("alice", HOSTS[0]) == [0, 0, 0]
        assert codes("alice", HOSTS[1]) == codes("bob", HOSTS[0]) == denied
    assert taken["_answer_kept"] >= 2
    deleted(served, wanted())
    assert codes("alice", HOSTS[0]) == denied


def test_one_kept_answer_is_enough_for_all_hosts_without_rules_about_them(served, taken):
    allow_all(served)
    request = fc.FindCoordinatorRequest(coordinator_keys=["g0"])
    answers = [served.log_in("alice", host).ask(request, 6) for host in HOSTS * 2]
    assert len({repr(each) for each in answers}) == 1
    assert taken["_answer_kept"] >= 2


# ---- quotas


def rates(served):
    return served.engine.client_quotas.quotas.rates(10)


def throttles_of_alice(served):
    return sum(throttles for _, user, _, _, _, throttles, _ in rates(served) if user == "alice")


def throttled(frame, client, request, version):
    answer = client.exchange(frame)
    _, body = decode_response(request.api_key, version, answer)
    return with_throttle_time(request.api_key, version, answer, 0), getattr(body, "throttle_time_ms", 0)


@pytest.mark.parametrize("make", REQUESTS, ids=lambda make: make.__name__)
def test_a_client_over_its_quota_waits_on_each_way(served, taken, make):
    """The answer comes at once and says how long, and the next one comes after that time."""
    allow_all(served)
    served.find_coordinators(*GROUPS)
    limit(served, 1e6)
    short, long = served.log_in("alice"), served.log_in("alice")
    chance = random.Random(2)
    while True:  # one that a short way takes
        request, version = make(chance, served)
        frame = encode_request(request, version, 5, "test")
        before = taken.total() + served.leased()
        for _ in range(3):
            plain, throttle_ms = throttled(frame, short, request, version)
            assert throttle_ms == 0
        if taken.total() + served.leased() >= before + 2:
            break
    # Not in the image, whose change would end what is kept.
    served.engine.client_quotas.quotas.set([(REQUEST, DEFAULT, None, 0.0001)])
    before, throttles = taken.total() + served.leased(), throttles_of_alice(served)
    sent_s = time.monotonic()
    answer, throttle_ms = throttled(frame, short, request, version)
    assert answer == plain
    assert taken.total() + served.leased() > before
    assert throttles_of_alice(served) == throttles + 1
    short.exchange(frame)
    assert time.monotonic() - sent_s >= throttle_ms / 1000 - 0.05
    with served.long_way():
        told, long_ms = throttled(frame, long, request, version)
    assert told == plain
    assert (throttle_ms > 0) == (long_ms > 0)


def test_time_of_reactors_counts(served):
    allow_all(served)
    limit(served, 1e6)
    client = served.log_in("bob")
    await_lease(client, served)

    def used():
        return max((rate for _, user, _, _, rate, *_ in rates(served) if user == "bob"), default=0)

    before, leased = used(), served.leased()
    for _ in range(200):
        beat(client, served)
    assert served.leased() >= leased + 200
    assert used() > before
