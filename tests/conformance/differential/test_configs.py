"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from typing import Any

from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.talk import Talk

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(talk: Talk, note: str, kind: int, name: str, *keys: str, **more: Any) -> None:
    """Describes some configs of a resource, or all without `keys`."""
    version = talk.version if more.pop("own_version", True) else 4
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    talk.ask("DescribeConfigs", version, note=note, resources=[resource], **more)


@conversation(versions("DescribeConfigs"))
def test_describe_topic(talk: Talk) -> None:
    plain, own = talk.topic("plain"), talk.topic("own", retention_ms="5", cleanup_policy="compact")
    describe(talk, "everything", TOPIC, plain, include_synonyms=True, include_documentation=False)
    describe(talk, "overrides", TOPIC, own, include_synonyms=True)
    describe(talk, "without synonyms", TOPIC, own, include_synonyms=False)
    describe(talk, "some", TOPIC, own, "retention.ms", "no.such", "retention.bytes")
    describe(talk, "none of them", TOPIC, own, "no.such")
    both = [
        {"resource_type": TOPIC, "resource_name": name, "configuration_keys": ["retention.ms"]}
        for name in (plain, own)
    ]
    talk.ask(
        "DescribeConfigs", talk.version, note="two", resources=both, unordered={"results": "resource_name"}
    )
    talk.ask("DescribeConfigs", talk.version, note="twice", resources=[both[0]] * 2)
    talk.ask("DescribeConfigs", talk.version, note="nothing", resources=[])
    empty = {"resource_type": TOPIC, "resource_name": plain, "configuration_keys": []}
    talk.ask("DescribeConfigs", talk.version, note="no keys", resources=[empty])


@conversation(versions("DescribeConfigs", 3))
def test_documentation_is_there(talk: Talk) -> None:
    name = talk.topic("documented")
    for kind, resource in ((TOPIC, name), (BROKER, "1")):
        wanted = {"resource_type": kind, "resource_name": resource, "configuration_keys": None}
        answer = talk.quietly("DescribeConfigs", talk.version, resources=[wanted], include_documentation=True)
        documented = sorted(each.name for each in answer.results[0].configs if each.documentation)
        talk.note(f"documented of {kind}", dict.fromkeys(documented, True))


@conversation(versions("DescribeConfigs"))
def test_describe_what_is_not_there(talk: Talk) -> None:
    for kind, name in (
        (TOPIC, talk.name("unknown")),
        (TOPIC, ""),
        (TOPIC, ".."),
        (TOPIC, "a b"),
        (BROKER, "7"),
        (BROKER, "one"),
        (BROKER, "-1"),
        (BROKER_LOGGER, ""),
        (BROKER_LOGGER, "7"),
        (0, "x"),
        (1, "x"),
        (64, "x"),
        (-3, "x"),
    ):
        describe(talk, f"{kind} {name!r}", kind, name)


@conversation(versions("DescribeConfigs"))
def test_describe_broker(talk: Talk) -> None:
    describe(talk, "this broker", BROKER, "1", include_synonyms=True)
    describe(talk, "all brokers", BROKER, "", include_synonyms=True)
    describe(
        talk,
        "some",
        BROKER,
        "1",
        "log.retention.hours",
        "log.retention.ms",
        "num.partitions",
        "no.such",
        include_synonyms=True,
    )


def alter(
    talk: Talk, note: str, kind: int, name: str, *changes: tuple[str, int, str | None], **more: Any
) -> Any:
    """IncrementalAlterConfigs of one resource."""
    rows = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    return talk.ask("IncrementalAlterConfigs", talk.version, note=note, resources=[resource], **more)


def settled(talk: Talk, name: str, key: str, value: str | None, kind: int = TOPIC) -> None:
    """Waits until DescribeConfigs shows the acknowledged value."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
    talk.until(
        lambda answer: any(each.value == value for each in answer.results[0].configs),
        "DescribeConfigs",
        4,
        resources=[resource],
    )


@conversation(versions("IncrementalAlterConfigs"))
def test_incremental_alter_topic(talk: Talk) -> None:
    name = talk.topic("t", retention_ms="5")

    def ask(note: str, *changes: tuple[str, int, str | None], **more: Any) -> None:
        alter(talk, note, TOPIC, name, *changes, **more)

    ask("set", ("retention.ms", SET, "6"), ("max.message.bytes", SET, "1000"))
    settled(talk, name, "max.message.bytes", "1000")
    describe(talk, "after set", TOPIC, name, own_version=False, include_synonyms=True)
    ask("delete", ("retention.ms", DELETE, None))
    settled(talk, name, "retention.ms", "604800000")
    ask("delete what is not set", ("retention.ms", DELETE, None))
    ask("delete with value", ("retention.ms", DELETE, "1"))
    ask("delete unknown", ("no.such", DELETE, None))
    ask("append", ("cleanup.policy", APPEND, "compact"))
    settled(talk, name, "cleanup.policy", "delete,compact")
    describe(talk, "after append", TOPIC, name, "cleanup.policy", own_version=False)
    ask("append the same", ("cleanup.policy", APPEND, "compact"))
    ask("subtract", ("cleanup.policy", SUBTRACT, "delete"))
    settled(talk, name, "cleanup.policy", "compact")
    ask("subtract what is not in it", ("cleanup.policy", SUBTRACT, "delete"))
    ask("append to no list", ("retention.ms", APPEND, "1"))
    ask("subtract from no list", ("retention.ms", SUBTRACT, "1"))
    ask("append a bad item", ("cleanup.policy", APPEND, "burn"))
    ask("append unknown", ("no.such", APPEND, "1"))
    ask("bad operation", ("retention.ms", 7, "1"))
    ask("null", ("retention.ms", SET, None))
    ask("unknown", ("no.such", SET, "1"))
    ask("not a number", ("retention.ms", SET, "soon"))
    ask("out of range", ("segment.bytes", SET, "1"))
    ask("one good, one bad", ("flush.messages", SET, "7"), ("segment.bytes", SET, "1"))
    ask("twice the same", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    ask("nothing")
    ask("validated", ("retention.ms", SET, "9"), validate_only=True)
    ask("validated bad", ("retention.ms", SET, "x"), validate_only=True)
    ask("empty value", ("retention.ms", SET, ""))
    ask("empty list", ("cleanup.policy", SET, ""))
    ask("long", ("leader.replication.throttled.replicas", SET, "0:1," * 8190 + "0:1"))
    ask("internal", ("internal.segment.bytes", SET, "2000000"))
    settled(talk, name, "internal.segment.bytes", "2000000")
    describe(talk, "in the end", TOPIC, name, own_version=False, include_synonyms=True)


@conversation(versions("IncrementalAlterConfigs"))
def test_incremental_alter_of_what_is_not_there(talk: Talk) -> None:
    change = ("retention.ms", SET, "1")
    for kind, name in (
        (TOPIC, talk.name("unknown")),
        (TOPIC, ""),
        (TOPIC, "a b"),
        (BROKER, "7"),
        (BROKER, "one"),
        (0, "x"),
        (1, "x"),
        (64, "x"),
    ):
        alter(talk, f"{kind} {name!r}", kind, name, change)
    name = talk.topic("t")
    rows = [
        {
            "resource_type": TOPIC,
            "resource_name": name,
            "configs": [{"name": "retention.ms", "config_operation": SET, "value": "1"}],
        }
    ]
    talk.ask("IncrementalAlterConfigs", talk.version, note="twice the same resource", resources=rows * 2)
    other = rows[0] | {"resource_name": talk.name("unknown")}
    talk.ask(
        "IncrementalAlterConfigs",
        talk.version,
        note="one of two",
        resources=[rows[0], other],
        unordered={"responses": "resource_name"},
    )
    talk.ask("IncrementalAlterConfigs", talk.version, note="none", resources=[])


@conversation(versions("IncrementalAlterConfigs"))
def test_incremental_alter_broker(talk: Talk) -> None:
    def ask(note: str, name: str, *changes: tuple[str, int, str | None], **more: Any) -> None:
        alter(talk, note, BROKER, name, *changes, **more)

    def show(note: str, *keys: str) -> None:
        for name in ("", "1"):
            describe(talk, f"{note}: {name!r}", BROKER, name, *keys, own_version=False, include_synonyms=True)

    ask("default", "", ("log.retention.ms", SET, "1000000"))
    settled(talk, "1", "log.retention.ms", "1000000", BROKER)
    show("after default", "log.retention.ms", "log.retention.hours", "log.retention.minutes")
    ask("own", "1", ("log.retention.ms", SET, "2000000"))
    settled(talk, "1", "log.retention.ms", "2000000", BROKER)
    show("after own", "log.retention.ms")
    topic = talk.topic("t", retention_bytes="77")
    describe(talk, "a topic's", TOPIC, topic, own_version=False, include_synonyms=True)
    ask("delete own", "1", ("log.retention.ms", DELETE, None))
    settled(talk, "1", "log.retention.ms", "1000000", BROKER)
    ask("delete default", "", ("log.retention.ms", DELETE, None))
    ask("read only", "1", ("broker.id", SET, "5"))
    ask("read only default", "", ("num.partitions", SET, "5"))
    ask("read only deleted", "1", ("broker.id", DELETE, None))
    ask("own only, as default", "", ("listeners", SET, "PLAINTEXT://:1"))
    ask("bad number", "1", ("message.max.bytes", SET, "many"))
    ask("out of range", "", ("log.segment.bytes", SET, "1"))
    ask("null", "1", ("message.max.bytes", SET, None))
    ask("append", "1", ("log.cleanup.policy", APPEND, "compact"))
    ask("append to no list", "1", ("message.max.bytes", APPEND, "1"))
    ask("validated", "1", ("message.max.bytes", SET, "5000000"), validate_only=True)
    ask("clean", "1", ("log.cleanup.policy", DELETE, None))
    settled(talk, "1", "log.cleanup.policy", "delete", BROKER)
    show("in the end", "log.cleanup.policy", "message.max.bytes")


AS_TYPED = (
    ("cleanup.policy", " compact , delete "),
    ("cleanup.policy", "compact,compact"),
    ("retention.ms", " 60000 "),
    ("retention.ms", "+5"),
    ("segment.bytes", "+2000000 "),
    ("preallocate", "TRUE"),
    ("min.cleanable.dirty.ratio", "0.50"),
    ("min.cleanable.dirty.ratio", "1e-1"),
    ("min.cleanable.dirty.ratio", ".0005"),
    ("compression.type", " gzip "),
    ("leader.replication.throttled.replicas", " 0:1 , 0:1 "),
)


@conversation(versions("DescribeConfigs"))
def test_topic_configs_as_typed(talk: Talk) -> None:
    for number, (name, value) in enumerate(AS_TYPED):
        topic = talk.name(f"t{number}")
        row = {
            "name": topic,
            "num_partitions": 1,
            "replication_factor": 1,
            "configs": [{"name": name, "value": value}],
        }
        made = talk.quietly("CreateTopics", 7, topics=[row]).topics[0]
        shown = {each.name: each.value for each in made.configs or ()}
        talk.note(f"created {name}={value!r}", {"error": made.error_code, "shown": shown.get(name)})
        talk.know(topic, made.topic_id)
        talk.led(topic)
        describe(talk, f"{name}={value!r}", TOPIC, topic, name, include_synonyms=True)


@conversation(versions("IncrementalAlterConfigs"))
def test_other_configs_as_typed(talk: Talk) -> None:
    group, metrics = talk.name("g"), talk.name("m")
    for kind, resource, name, value, parsed, default in (
        (BROKER, "", "log.retention.ms", " +5000000 ", "5000000", None),
        (BROKER, "1", "log.cleanup.policy", " compact , delete ", "compact,delete", "delete"),
        (BROKER, "1", "log.cleaner.min.cleanable.ratio", "4e-1", "0.4", "0.5"),
        (BROKER, "1", "log.preallocate", " TRUE", "true", "false"),
        (GROUP, group, "consumer.session.timeout.ms", " +50000", "50000", "45000"),
        (GROUP, group, "share.isolation.level", " read_committed ", "read_committed", "read_uncommitted"),
        (CLIENT_METRICS, metrics, "interval.ms", " +500", "500", "300000"),
        (CLIENT_METRICS, metrics, "metrics", " a. , b. ,a.", "a.,b.", ""),
    ):
        alter(talk, f"{name}={value!r}", kind, resource, (name, SET, value))
        settled(talk, resource or "1", name, parsed, kind)
        for each in dict.fromkeys((resource, resource or "1")):
            describe(talk, f"{name} of {each!r}", kind, each, name, own_version=False, include_synonyms=True)
        alter(talk, f"{name} deleted", kind, resource, (name, DELETE, None))
        settled(talk, resource or "1", name, default, kind)


@conversation(versions("IncrementalAlterConfigs"))
def test_key_stores_change_only_for_a_listener(talk: Talk) -> None:
    for resource in ("1", ""):
        for name in ("ssl.truststore.type", "ssl.keystore.type", "ssl.key.password"):
            alter(talk, f"{name} of {resource!r}", BROKER, resource, (name, SET, "PKCS12"))


@conversation(versions("IncrementalAlterConfigs"))
def test_unknown_broker_configs(talk: Talk) -> None:
    for name in ("1", ""):
        alter(talk, f"unknown of {name!r}", BROKER, name, ("no.such", SET, "5"))
        alter(talk, f"append to unknown of {name!r}", BROKER, name, ("no.such", APPEND, "5"))
        alter(talk, f"unknown of {name!r} deleted", BROKER, name, ("no.such", DELETE, None))


def listed(talk: Talk, kind: int, name: str) -> None:
    """Whether a resource has configs."""
    answer = talk.quietly("ListConfigResources", 1, resource_types=[kind])
    talk.note(f"{kind} {name!r} listed", name in {each.resource_name for each in answer.config_resources})


def replace(talk: Talk, note: str, kind: int, name: str, *configs: tuple[str, str | None]) -> None:
    """AlterConfigs: unnamed configs return to their defaults."""
    rows = [{"name": key, "value": value} for key, value in configs]
    wanted = {"resource_type": kind, "resource_name": name, "configs": rows}
    talk.ask("AlterConfigs", 2, note=note, resources=[wanted])


@conversation(versions("IncrementalAlterConfigs"))
def test_configs_of_groups(talk: Talk) -> None:
    group = talk.name("g")
    session, reset = "consumer.session.timeout.ms", "share.auto.offset.reset"
    describe(talk, "before", GROUP, group, own_version=False, include_synonyms=True)
    describe(talk, "some", GROUP, group, session, "no.such", own_version=False, include_synonyms=True)
    describe(talk, "without name", GROUP, "", own_version=False)
    for name, value in (
        (session, "50000"),
        (session, "1"),
        (session, "0"),
        (session, "10000000"),
        (session, "x"),
        (session, ""),
        (session, None),
        ("consumer.heartbeat.interval.ms", "20000"),
        ("consumer.assignment.interval.ms", "20000"),
        (reset, "sometimes"),
        (reset, "EARLIEST"),
        (reset, "by_duration:1h"),
        (reset, "by_duration:-PT1H"),
        (reset, "by_duration:PT1H"),
        ("share.isolation.level", "x"),
        ("share.isolation.level", "read_committed"),
        ("share.renew.acknowledge.enable", "maybe"),
        ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "20"),
        ("share.partition.max.record.locks", "5000"),
        ("streams.num.standby.replicas", "3"),
        ("streams.initial.rebalance.delay.ms", "-1"),
        ("streams.assignment.interval.ms", "99999"),
        ("no.such", "1"),
    ):
        alter(talk, f"{name}={value}", GROUP, group, (name, SET, value))
    alter(talk, "append", GROUP, group, (session, APPEND, "1"))
    alter(talk, "append to unknown", GROUP, group, ("no.such", APPEND, "1"))
    alter(talk, "unknown deleted", GROUP, group, ("no.such", DELETE, None))
    alter(talk, "unknown operation", GROUP, group, (session, 9, "1"))
    alter(talk, "without name", GROUP, "", (session, SET, "50000"))
    settled(talk, group, "share.isolation.level", "read_committed", GROUP)
    describe(talk, "after", GROUP, group, own_version=False, include_synonyms=True)
    listed(talk, GROUP, group)
    replace(talk, "unknown", GROUP, group, ("no.such", "1"))
    replace(talk, "null", GROUP, group, ("share.isolation.level", None))
    replace(talk, "one", GROUP, group, ("share.isolation.level", "read_uncommitted"))
    settled(talk, group, session, "45000", GROUP)
    describe(talk, "replaced", GROUP, group, own_version=False, include_synonyms=True)
    alter(talk, "deleted", GROUP, group, ("share.isolation.level", DELETE, None))
    replace(talk, "nothing", GROUP, group)


@conversation(versions("IncrementalAlterConfigs"))
def test_configs_of_client_metrics(talk: Talk) -> None:
    name = talk.name("m")
    describe(talk, "before", CLIENT_METRICS, name, own_version=False, include_synonyms=True)
    describe(talk, "without name", CLIENT_METRICS, "", own_version=False)
    listed(talk, CLIENT_METRICS, name)
    for config, value in (
        ("interval.ms", "500"),
        ("interval.ms", "1"),
        ("interval.ms", "3600001"),
        ("interval.ms", "x"),
        ("interval.ms", None),
        ("no.such", "1"),
        ("match", "client_id"),
        ("match", "nobody=1"),
        ("match", "client_id=["),
        ("match", "client_id=a,client_software_name=b.*"),
        ("metrics", "a,,b"),
        ("metrics", "a,a"),
        ("metrics", ""),
        ("metrics", "*"),
        ("metrics", "org.apache.kafka.,x."),
    ):
        alter(talk, f"{config}={value}", CLIENT_METRICS, name, (config, SET, value))
    alter(talk, "append", CLIENT_METRICS, name, ("metrics", APPEND, "c."))
    alter(talk, "subtract", CLIENT_METRICS, name, ("metrics", SUBTRACT, "x."))
    alter(talk, "append to unknown", CLIENT_METRICS, name, ("no.such", APPEND, "1"))
    alter(talk, "unknown deleted", CLIENT_METRICS, name, ("no.such", DELETE, None))
    alter(talk, "without name", CLIENT_METRICS, "", ("interval.ms", SET, "500"))
    settled(talk, name, "metrics", "org.apache.kafka.,x.", CLIENT_METRICS)
    describe(talk, "after", CLIENT_METRICS, name, own_version=False, include_synonyms=True)
    describe(talk, "some", CLIENT_METRICS, name, "interval.ms", "x", own_version=False, include_synonyms=True)
    listed(talk, CLIENT_METRICS, name)
    replace(talk, "unknown", CLIENT_METRICS, name, ("no.such", "1"))
    replace(talk, "null", CLIENT_METRICS, name, ("interval.ms", None))
    replace(talk, "one", CLIENT_METRICS, name, ("interval.ms", "700"))
    settled(talk, name, "metrics", "", CLIENT_METRICS)
    describe(talk, "replaced", CLIENT_METRICS, name, own_version=False, include_synonyms=True)
    replace(talk, "nothing", CLIENT_METRICS, name)
    settled(talk, name, "interval.ms", "300000", CLIENT_METRICS)
    listed(talk, CLIENT_METRICS, name)


@conversation(versions("AlterConfigs"))
def test_alter_topic(talk: Talk) -> None:
    name = talk.topic("t", retention_ms="5")

    def ask(
        note: str, *configs: tuple[str, str | None], kind: int = TOPIC, resource: str = name, **more: Any
    ) -> None:
        rows = [{"name": key, "value": value} for key, value in configs]
        wanted = {"resource_type": kind, "resource_name": resource, "configs": rows}
        talk.ask("AlterConfigs", talk.version, note=note, resources=[wanted], **more)

    ask("replace", ("max.message.bytes", "1000"))
    settled(talk, name, "retention.ms", "604800000")
    describe(
        talk,
        "replaced",
        TOPIC,
        name,
        "max.message.bytes",
        "retention.ms",
        own_version=False,
        include_synonyms=True,
    )
    ask("null", ("retention.ms", None))
    ask("unknown", ("no.such", "1"))
    ask("bad", ("retention.ms", "soon"))
    ask("twice", ("retention.ms", "1"), ("retention.ms", "2"))
    ask("validated", ("retention.ms", "9"), validate_only=True)
    ask("unknown topic", ("retention.ms", "9"), resource=talk.name("unknown"))
    ask("unknown kind", ("retention.ms", "9"), kind=64)
    ask("other broker", ("log.retention.ms", "9"), kind=BROKER, resource="7")
    ask("broker read only", ("num.partitions", "9"), kind=BROKER, resource="1")
    ask("broker bad", ("message.max.bytes", "many"), kind=BROKER, resource="")
    ask("clear")
    settled(talk, name, "max.message.bytes", "1048588")
    describe(talk, "cleared", TOPIC, name, own_version=False)


@conversation(versions("ListConfigResources"))
def test_list_config_resources(talk: Talk) -> None:
    def ask(note: str, *kinds: int) -> None:
        answer = talk.quietly("ListConfigResources", talk.version, resource_types=list(kinds))
        listed = sorted(
            (each.resource_type if talk.version else CLIENT_METRICS, each.resource_name)
            for each in answer.config_resources
        )
        found = [each for each in listed if each[0] != TOPIC or each[1].startswith(talk.name(""))]
        talk.note(f"ListConfigResources v{talk.version} {note}", {"error": answer.error_code, "found": found})

    talk.topic("t", retention_ms="5")
    ask("without kinds")
    if talk.version >= 1:
        for kind in (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, 0, 3):
            ask(f"{kind}", kind)
        ask("two kinds", TOPIC, BROKER)
