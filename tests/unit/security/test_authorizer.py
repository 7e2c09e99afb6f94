"""Access control of the control plane."""

import asyncio

import pytest

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.metadata.acls_image import Acl, acl_record
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.security.authorizer import Authorizer
from bowstring.engine.security.principals import OWN_NODE
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.records.cluster_metadata.markers import BeginTransactionRecord, EndTransactionRecord
from bowstring.protocol.records.cluster_metadata.security import RemoveAccessControlEntryRecord
from tests.support.waiting import wait_until_async

STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
READ, WRITE = AclOperation.READ, AclOperation.WRITE
TOPIC = AclResourceType.TOPIC


class Sender:
    def __init__(self, principal="User:ANONYMOUS", peer="127.0.0.1:1234"):
        self.principal = principal
        self.peer = peer


def test_without_an_authorizer_everything_is_allowed():
    authorizer = Authorizer(BrokerConfigs({}))
    sender = Sender()
    assert not authorizer.is_on
    assert authorizer.allows(sender, AclOperation.READ, AclResourceType.TOPIC, "t")
    assert authorizer.allowed(sender, AclOperation.READ, AclResourceType.TOPIC, ["a", "b"]) == {"a", "b"}
    assert authorizer.allows_some(sender, AclOperation.WRITE, AclResourceType.TOPIC)
    assert authorizer.operations(sender, AclResourceType.GROUP, "g") == 0b110101001000


class Source:
    """A metadata log whose records are applied at once."""

    def __init__(self):
        self.image = ClusterImage()
        self.on_applied, self.on_snapshot = [], []

    def append(self, *records):
        self.image.apply_all(records)
        for listener in self.on_applied:
            listener(records, 0, 0)

    def replace(self, image):
        self.image = image
        for listener in self.on_snapshot:
            listener(image, 0, 0)


def acl(n, name="t", principal="User:alice", operation=READ, permission=3, pattern=3):
    return acl_record(n.to_bytes(16, "big"), Acl(2, pattern, name, principal, "*", operation, permission))


def removal(n):
    return RemoveAccessControlEntryRecord(id=n.to_bytes(16, "big"))


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def authorizer(source):
    made = Authorizer(BrokerConfigs(STANDARD | {"super.users": " User:admin ; User:CN=x,O=y;"}))
    made.follow(source, lambda: True)
    return made


ALICE = Sender("User:alice")


def test_rules_of_the_image_are_followed(authorizer, source):
    assert not authorizer.allows(ALICE, READ, TOPIC, "t")
    source.append(acl(1), acl(2, "u"))
    assert authorizer.allowed(ALICE, READ, TOPIC, ["t", "u", "v"]) == {"t", "u"}
    source.append(removal(1))
    assert authorizer.allowed(ALICE, READ, TOPIC, ["t", "u", "v"]) == {"u"}
    source.append(acl(2, "v"))
    assert authorizer.allowed(ALICE, READ, TOPIC, ["t", "u", "v"]) == {"v"}
    assert authorizer.allows_some(ALICE, READ, TOPIC)
    assert not authorizer.allows_some(ALICE, WRITE, TOPIC)


def test_the_version_rises_with_each_change(authorizer, source):
    versions = [authorizer.version]
    for records in ([acl(1)], [acl(2, "u")], [removal(1)], [acl(2, "v")]):
        source.append(*records)
        versions.append(authorizer.version)
    source.replace(ClusterImage())
    versions.append(authorizer.version)
    authorizer.loaded()
    versions.append(authorizer.version)
    assert versions == sorted(set(versions))
    source.append(removal(9))  # of a rule that is unknown
    assert authorizer.version == versions[-1]


def test_senders_are_alike_by_principal_unless_rules_look_at_hosts(authorizer, source):
    others = Sender("User:bob"), Sender("User:alice", "10.0.0.1:1"), Sender("User:alice", "[::1]:1")
    alike = [authorizer.alike(each) == authorizer.alike(ALICE) for each in others]
    assert alike == [False, True, True]
    for_a_host = Acl(2, 3, "t", "User:alice", "10.0.0.1", READ, 3)
    source.append(acl_record(b"h" * 16, for_a_host))
    alike = [authorizer.alike(each) == authorizer.alike(ALICE) for each in others]
    assert alike == [False, False, False]
    assert authorizer.alike(Sender("User:alice", "127.0.0.1:99")) == authorizer.alike(ALICE)
    source.append(RemoveAccessControlEntryRecord(id=b"h" * 16))
    assert authorizer.alike(others[1]) == authorizer.alike(ALICE)


def test_several_are_permitted_together_and_reported_if_all_is_audited(authorizer, source):
    noted = []
    source.append(acl(1), acl(2, "u"))
    authorizer.allows(ALICE, READ, TOPIC, "t")  # loads the rules
    authorizer.rules.reports.audit = noted.append
    assert authorizer.may_repeat
    assert authorizer.permits(ALICE, [(READ, TOPIC, "t"), (READ, TOPIC, "u")])
    authorizer.note_permitted(ALICE, [(READ, TOPIC, "t")])
    authorizer.rules.reports.audits_allowed = True
    assert not authorizer.may_repeat
    authorizer.note_permitted(ALICE, [(READ, TOPIC, "t"), (READ, TOPIC, "u"), (READ, TOPIC, "t")])
    assert [(each.name, each.allowed, each.host) for each in noted] == [
        ("t", True, "127.0.0.1"),
        ("u", True, "127.0.0.1"),
    ]
    assert not authorizer.permits(ALICE, [(READ, TOPIC, "t"), (WRITE, TOPIC, "t")])
    assert len(noted) == 2 and authorizer.rules.denied() == {}


def test_nothing_is_permitted_at_once_before_the_rules_are_loaded(source):
    authorizer = Authorizer(BrokerConfigs(STANDARD | {"super.users": "User:admin"}))
    authorizer.follow(source, lambda: False)
    assert not authorizer.permits(Sender("User:admin"), [])


def test_rules_of_a_metadata_transaction_count_at_its_end(authorizer, source):
    source.append(BeginTransactionRecord(), acl(1))
    assert not authorizer.allows(ALICE, READ, TOPIC, "t")
    source.append(EndTransactionRecord())
    assert authorizer.allows(ALICE, READ, TOPIC, "t")


def test_a_snapshot_replaces_all_rules(authorizer, source):
    source.append(acl(1), acl(2, "u"))
    image = ClusterImage()
    image.apply_all([acl(2, "u"), *(acl(n, f"x{n}") for n in range(3, 2000))])
    source.replace(image)
    assert authorizer.allowed(ALICE, READ, TOPIC, ["t", "u", "x1999"]) == {"u", "x1999"}


def test_super_users_and_the_node_itself_may_do_everything(authorizer, source):
    source.append(acl(1, "*", "User:*", 2, permission=2))
    for principal in ("User:admin", "User:CN=x,O=y", OWN_NODE):
        assert authorizer.allows(Sender(principal), WRITE, TOPIC, "t")
    for principal in ("User:adm", "".join(["Node:", "within"])):
        assert not authorizer.allows(Sender(principal), WRITE, TOPIC, "t")


def test_operations_are_bits_and_imply_others(authorizer, source):
    source.append(acl(1, operation=AclOperation.WRITE), acl(2, operation=AclOperation.ALTER_CONFIGS))
    wanted = (
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
        AclOperation.ALTER_CONFIGS,
        AclOperation.DESCRIBE_CONFIGS,
    )
    assert authorizer.operations(ALICE, TOPIC, "t") == sum(1 << each for each in wanted)
    assert authorizer.rules.denied() == {}


def test_before_the_rules_are_loaded_super_users_alone_are_served(source):
    is_complete = False
    authorizer = Authorizer(BrokerConfigs(STANDARD | {"super.users": "User:admin"}))
    source.append(acl(1))
    authorizer.follow(source, lambda: is_complete)
    assert authorizer.allows(Sender("User:admin"), READ, TOPIC, "t")
    with pytest.raises(KafkaError, match="not loaded yet"):
        authorizer.allows(ALICE, READ, TOPIC, "t")
    is_complete = True
    assert authorizer.allows(ALICE, READ, TOPIC, "t")


def test_without_rules_everyone_may_do_everything_if_configured(source):
    authorizer = Authorizer(BrokerConfigs(STANDARD | {"allow.everyone.if.no.acl.found": "true"}))
    authorizer.follow(source, lambda: True)
    assert authorizer.allows(ALICE, WRITE, TOPIC, "t")
    source.append(acl(1, "t", "User:bob", pattern=4))
    assert not authorizer.allows(ALICE, WRITE, TOPIC, "topic")
    assert authorizer.allows(ALICE, WRITE, TOPIC, "other")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"authorizer.class.name": "com.example.Mine"}, "com.example.Mine"),
        (STANDARD | {"super.users": "User:a;bob"}, "User:bob"),
        ({"bowstring.audit.file": "/tmp/x"}, "needs authorizer.class.name"),
        ({"bowstring.audit.topic": "audit"}, "needs authorizer.class.name"),
        (STANDARD | {"bowstring.audit.topic": "__consumer_offsets"}, "bowstring.audit.topic"),
        (STANDARD | {"bowstring.audit.topic": "a/b"}, "bowstring.audit.topic"),
        ({"super.users": "User:a"}, "needs authorizer.class.name"),
        ({"allow.everyone.if.no.acl.found": "false"}, "needs authorizer.class.name"),
    ],
)
def test_settings_that_cannot_hold_are_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        Authorizer(BrokerConfigs(settings))


NODE = {
    "process.roles": "broker,controller",
    "listeners": "OUTER://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"early.start.listeners": "OTHER"}, "names OTHER, which neither"),
        (STANDARD | {"early.start.listeners": "CONTROLLER,outer"}, "names OUTER, but listeners of brokers"),
        (STANDARD | {"early.start.listeners": ""}, "leaves out CONTROLLER"),
    ],
)
def test_early_listeners_that_a_node_does_not_have_are_refused(settings, said):
    with pytest.raises(ConfigError, match=said):
        Authorizer(BrokerConfigs(NODE | settings))


@pytest.mark.parametrize(
    "settings",
    [
        {"early.start.listeners": "OUTER"},
        STANDARD | {"early.start.listeners": "controller"},
        STANDARD | {"process.roles": "broker", "listeners": "OUTER://:9092", "early.start.listeners": ""},
    ],
)
def test_early_listeners_that_hold_are_accepted(settings):
    assert Authorizer(BrokerConfigs(NODE | settings))


def test_an_audit_file_that_cannot_be_written_is_refused(source, tmp_path):
    authorizer = Authorizer(BrokerConfigs(STANDARD | {"bowstring.audit.file": str(tmp_path / "no" / "file")}))
    with pytest.raises(ConfigError, match="cannot be written"):
        authorizer.follow(source, lambda: True)


class Plane:
    """Takes the place of the reactors."""

    def __init__(self):
        self.calls = []

    def set_access(self, table):
        self.table = table

    def change_access(self, added, removed):
        self.calls.append((len(added), len(removed)))

    def recheck_access(self):
        self.calls.append("recheck")

    def take_access(self):
        return [("User:x", "::1", 1, "t", False)], 3

    def denied_access(self):
        return 1, 2, 0, 0


def test_reactors_get_changes_and_look_again_once_for_many(source):
    async def run():
        authorizer, plane = Authorizer(BrokerConfigs(STANDARD)), Plane()
        authorizer.follow(source, lambda: True, plane)
        for n in range(5):
            source.append(acl(n))
        await wait_until_async(lambda: "recheck" in plane.calls)
        assert plane.calls[-1] == "recheck" and plane.calls.count("recheck") == 1
        assert plane.table is authorizer.rules.table
        authorizer.rules.take_reports()
        assert +authorizer.rules.denied() == {(WRITE, TOPIC): 1, (READ, TOPIC): 2}
        authorizer.stop()

    asyncio.run(run())
