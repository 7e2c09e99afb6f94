"""Every API in every version, from clients that may do nothing, or only describe: what is there, and what is not."""

from typing import Any, Final

from bowstring.engine.api.table import BY_BROKER
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.schema import ARRAY, STRUCT, Field, Struct, fields_of
from tests.conformance.differential.compare import conversation
from tests.conformance.differential.sasl_client import Client, plain
from tests.conformance.differential.talk import API_KEYS, Talk

# They have to do with the connection, and need no permission.
OPEN: Final = ("ApiVersions", "SaslHandshake", "SaslAuthenticate")
# They list what other conversations have left.
ELSEWHERE: Final = ("ListGroups", "ListTransactions", "DescribeLogDirs")
LISTINGS: Final = ("ListPartitionReassignments", "DescribeUserScramCredentials")
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ANY, ALL, READ, DESCRIBE = 1, 2, 3, 8
ANSWER_S: Final = 10
# Values without which brokers do not look at permissions.
FIXED: Final[dict[tuple[str, str], Any]] = {
    ("ProduceRequest", "acks"): 1,
    **{
        (struct, field): ANY
        for struct in ("DescribeAclsRequest", "DeleteAclsFilter")
        for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
    },
    ("AclCreation", "resource_type"): TOPIC,
    ("AclCreation", "resource_pattern_type"): LITERAL,
    ("AclCreation", "operation"): READ,
    ("AclCreation", "permission_type"): ALLOW,
    ("DescribeConfigsResource", "resource_type"): TOPIC,
    ("SyncGroupRequest", "protocol_type"): "consumer",
    ("SyncGroupRequest", "protocol_name"): "range",
    ("AlterUserScramCredentialsRequest", "deletions"): [],
    ("AlterConfigsResource", "resource_type"): TOPIC,
}
USERS: Final = ("bob", "carol")
IDS: Final = {"group_id": "group", "transactional_id": "id", "v3_and_below_transactional_id": "id"}
LISTS: Final = {
    "groups": "group",
    "groups_names": "group",
    "group_ids": "group",
    "transactional_ids": "id",
    "coordinator_keys": "group",
    "topic_names": "there",
    "subscribed_topic_names": "there",
}


# of the cluster, beside DESCRIBE
CLUSTER_OPERATIONS: Final = (5, 7, 9, 10, 11, 12)


def rule(talk: Talk, user: str, kind: int, operation: int, permission: int) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": "kafka-cluster" if kind == CLUSTER else talk.name(""),
        "resource_pattern_type": LITERAL if kind == CLUSTER else PREFIXED,
        "principal": f"User:{user}",
        "host": "*",
        "operation": operation,
        "permission_type": permission,
    }


def deny(talk: Talk, user: str) -> None:
    """Denies all that has this conversation's prefix, and the cluster: to bob everything, to carol all but DESCRIBE."""
    named = (TOPIC, GROUP, TRANSACTIONAL_ID)
    if user == "bob":
        rules = [rule(talk, user, kind, ALL, DENY) for kind in (*named, CLUSTER)]
    else:
        rules = [rule(talk, user, kind, DESCRIBE, ALLOW) for kind in named]
        rules += [rule(talk, user, CLUSTER, operation, DENY) for operation in CLUSTER_OPERATIONS]
    talk.quietly("CreateAcls", 3, creations=rules)


def connect(talk: Talk, user: str) -> None:
    """Gives the conversation a connection of the user, if it has none."""
    if talk.has(user):
        return
    before = len(talk.transcript)
    client = Client(talk)
    client.handshake("PLAIN")
    client.token(plain(user, f"{user}-secret"))
    del talk.transcript[before:]
    client.wire.sock.settimeout(ANSWER_S)
    talk.adopt(user, client.wire)


def filled(declared: type[Struct], version: int, talk: Talk, topic: str) -> dict[str, Any]:
    """Returns fields of a request that name a topic, a group and a transactional id of this conversation."""
    found: dict[str, Any] = {}
    for field in fields_of(declared):
        if field.versions[0] <= version <= field.versions[1]:
            value = _value(declared, field, version, talk, topic)
            if value is not None:
                found[field.name] = value
    return found


def _value(declared: type[Struct], field: Field, version: int, talk: Talk, topic: str) -> Any:
    if (declared.__name__, field.name) in FIXED:
        return FIXED[declared.__name__, field.name]
    if field.kind == STRUCT:
        return None
    if field.kind == ARRAY and field.element == STRUCT:
        assert field.struct is not None
        return [filled(field.struct, version, talk, topic)]
    if field.name == "timeout_ms":
        return 5000
    if field.kind == ARRAY and field.name in ("partition_indexes", "partitions"):
        return [0]
    if field.kind == ARRAY:
        return (
            [talk.name(topic if LISTS[field.name] == "there" else LISTS[field.name])]
            if field.name in LISTS
            else None
        )
    if field.name in IDS:
        return talk.name(IDS[field.name])
    if field.name in ("topic", "topic_name", "name", "resource_name", "key"):
        return talk.name(topic)
    if field.name == "topic_id":
        return talk.topic_ids.get(talk.name(topic), b"an unknown topic")
    return None


def ask_in_every_version(talk: Talk, user: str, key: int) -> None:
    api = API_VERSIONS[key]
    for version in range(api.lowest, api.highest + 1):
        for topic in ("there", "nowhere"):
            connect(talk, user)
            fields = filled(api.request, version, talk, topic)
            talk.ask(api.name, version, on=user, note=topic, **fields)


# Kafka may not answer about share groups before it has their topic.
@conversation(range(len(USERS)), attempts=2)
def test_every_api(talk: Talk) -> None:
    user = USERS[talk.version]
    talk.topic("there")
    deny(talk, user)
    for key in sorted(BY_BROKER.offered):
        if API_VERSIONS[key].name not in (*OPEN, *LISTINGS, *ELSEWHERE):
            ask_in_every_version(talk, user, key)


@conversation()
def test_listings_that_are_refused(talk: Talk) -> None:
    deny(talk, "bob")
    for name in LISTINGS:
        ask_in_every_version(talk, "bob", API_KEYS[name])
