"""Each row of the table of APIs is complete, and agrees with the modules, the messages and Kafka's documentation."""

import subprocess
import sys
from importlib import import_module
from inspect import iscoroutinefunction

import pytest

from bowstring.engine.api.permissions import ANY_NAME, Denied, When
from bowstring.engine.api.request_permissions import for_whole_request
from bowstring.engine.api.table import BY_BROKER, BY_CONTROLLER, FORWARDED, NATIVE, TABLE
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.acls import AclResourceType
from bowstring.protocol.messages import API_MODULES, ApiKeys
from bowstring.protocol.schema import fields_of
from tests.support.waiting import HANG_S

BY_KEY = [pytest.param(row, id=API_MODULES[row.key]) for row in TABLE.values()]

# "Operations and Resources on Protocols" in Kafka's documentation (security, authorization and ACLs), Kafka 4.4.
DOCUMENTED = {
    "PRODUCE": "WRITE TRANSACTIONAL_ID, IDEMPOTENT_WRITE CLUSTER, WRITE TOPIC",
    "FETCH": "CLUSTER_ACTION CLUSTER, READ TOPIC",
    "LIST_OFFSETS": "DESCRIBE TOPIC",
    "METADATA": "DESCRIBE TOPIC, CREATE CLUSTER, CREATE TOPIC",
    "OFFSET_COMMIT": "READ GROUP, READ TOPIC",
    "OFFSET_FETCH": "DESCRIBE GROUP, DESCRIBE TOPIC",
    "FIND_COORDINATOR": "DESCRIBE GROUP, DESCRIBE TRANSACTIONAL_ID",
    "JOIN_GROUP": "READ GROUP",
    "HEARTBEAT": "READ GROUP",
    "LEAVE_GROUP": "READ GROUP",
    "SYNC_GROUP": "READ GROUP",
    "DESCRIBE_GROUPS": "DESCRIBE GROUP",
    "LIST_GROUPS": "DESCRIBE CLUSTER, DESCRIBE GROUP",
    "SASL_HANDSHAKE": "",
    "API_VERSIONS": "",
    "SASL_AUTHENTICATE": "",
    "CREATE_DELEGATION_TOKEN": "CREATE_TOKENS USER",
    "RENEW_DELEGATION_TOKEN": "",
    "EXPIRE_DELEGATION_TOKEN": "",
    "DESCRIBE_DELEGATION_TOKEN": "DESCRIBE DELEGATION_TOKEN, DESCRIBE_TOKENS USER",
    "DESCRIBE_USER_SCRAM_CREDENTIALS": "DESCRIBE CLUSTER",
    "ALTER_USER_SCRAM_CREDENTIALS": "ALTER CLUSTER",
    "CREATE_TOPICS": "CREATE CLUSTER, CREATE TOPIC",
    "DELETE_TOPICS": "DELETE TOPIC",
    "DELETE_RECORDS": "DELETE TOPIC",
    "INIT_PRODUCER_ID": "WRITE TRANSACTIONAL_ID, IDEMPOTENT_WRITE CLUSTER",
    "OFFSET_FOR_LEADER_EPOCH": "CLUSTER_ACTION CLUSTER, DESCRIBE TOPIC",
    "ADD_PARTITIONS_TO_TXN": "WRITE TRANSACTIONAL_ID, WRITE TOPIC",
    "ADD_OFFSETS_TO_TXN": "WRITE TRANSACTIONAL_ID, READ GROUP",
    "END_TXN": "WRITE TRANSACTIONAL_ID",
    "WRITE_TXN_MARKERS": "ALTER CLUSTER, CLUSTER_ACTION CLUSTER",
    "TXN_OFFSET_COMMIT": "WRITE TRANSACTIONAL_ID, READ GROUP, READ TOPIC",
    "DESCRIBE_CONFIGS": "DESCRIBE_CONFIGS CLUSTER, DESCRIBE_CONFIGS TOPIC",
    "ALTER_CONFIGS": "ALTER_CONFIGS CLUSTER, ALTER_CONFIGS TOPIC",
    "ALTER_REPLICA_LOG_DIRS": "ALTER CLUSTER",
    "DESCRIBE_LOG_DIRS": "DESCRIBE CLUSTER",
    "CREATE_PARTITIONS": "ALTER TOPIC",
    "DELETE_GROUPS": "DELETE GROUP",
    "ELECT_LEADERS": "CLUSTER_ACTION CLUSTER",
    "INCREMENTAL_ALTER_CONFIGS": "ALTER_CONFIGS CLUSTER, ALTER_CONFIGS TOPIC",
    "ALTER_PARTITION_REASSIGNMENTS": "ALTER CLUSTER",
    "LIST_PARTITION_REASSIGNMENTS": "DESCRIBE CLUSTER",
    "OFFSET_DELETE": "DELETE GROUP, READ TOPIC",
    "VOTE": "CLUSTER_ACTION CLUSTER",
    "BEGIN_QUORUM_EPOCH": "CLUSTER_ACTION CLUSTER",
    "END_QUORUM_EPOCH": "CLUSTER_ACTION CLUSTER",
    "DESCRIBE_QUORUM": "DESCRIBE CLUSTER",
    "ALTER_PARTITION": "CLUSTER_ACTION CLUSTER",
    "UPDATE_FEATURES": "ALTER CLUSTER",
    "ENVELOPE": "CLUSTER_ACTION CLUSTER",
    "FETCH_SNAPSHOT": "CLUSTER_ACTION CLUSTER",
    "DESCRIBE_CLUSTER": "DESCRIBE CLUSTER",
    "DESCRIBE_PRODUCERS": "READ TOPIC",
    "BROKER_REGISTRATION": "CLUSTER_ACTION CLUSTER",
    "BROKER_HEARTBEAT": "CLUSTER_ACTION CLUSTER",
    "DESCRIBE_ACLS": "DESCRIBE CLUSTER",
    "CREATE_ACLS": "ALTER CLUSTER",
    "DELETE_ACLS": "ALTER CLUSTER",
    "DESCRIBE_CLIENT_QUOTAS": "DESCRIBE_CONFIGS CLUSTER",
    "ALTER_CLIENT_QUOTAS": "ALTER_CONFIGS CLUSTER",
    "UNREGISTER_BROKER": "ALTER CLUSTER",
    "DESCRIBE_TRANSACTIONS": "DESCRIBE TRANSACTIONAL_ID",
    "LIST_TRANSACTIONS": "DESCRIBE TRANSACTIONAL_ID",
    "ALLOCATE_PRODUCER_IDS": "CLUSTER_ACTION CLUSTER",
    "CONSUMER_GROUP_HEARTBEAT": "READ GROUP",
    "CONSUMER_GROUP_DESCRIBE": "DESCRIBE GROUP",
    "CONTROLLER_REGISTRATION": "CLUSTER_ACTION CLUSTER",
    "ASSIGN_REPLICAS_TO_DIRS": "CLUSTER_ACTION CLUSTER",
    "LIST_CONFIG_RESOURCES": "DESCRIBE_CONFIGS CLUSTER",
    "DESCRIBE_TOPIC_PARTITIONS": "DESCRIBE TOPIC",
    "SHARE_GROUP_HEARTBEAT": "READ GROUP",
    "SHARE_GROUP_DESCRIBE": "DESCRIBE GROUP",
    "SHARE_FETCH": "READ GROUP, READ TOPIC",
    "SHARE_ACKNOWLEDGE": "READ GROUP, READ TOPIC",
    "INITIALIZE_SHARE_GROUP_STATE": "CLUSTER_ACTION CLUSTER",
    "READ_SHARE_GROUP_STATE": "CLUSTER_ACTION CLUSTER",
    "WRITE_SHARE_GROUP_STATE": "CLUSTER_ACTION CLUSTER",
    "DELETE_SHARE_GROUP_STATE": "CLUSTER_ACTION CLUSTER",
    "READ_SHARE_GROUP_STATE_SUMMARY": "CLUSTER_ACTION CLUSTER",
    "STREAMS_GROUP_HEARTBEAT": "READ GROUP, DESCRIBE TOPIC, CREATE TOPIC",
    "STREAMS_GROUP_DESCRIBE": "DESCRIBE GROUP, DESCRIBE TOPIC",
    "DESCRIBE_SHARE_GROUP_OFFSETS": "DESCRIBE GROUP, DESCRIBE TOPIC",
    "ALTER_SHARE_GROUP_OFFSETS": "READ GROUP, READ TOPIC",
    "DELETE_SHARE_GROUP_OFFSETS": "DELETE GROUP, READ TOPIC",
    "UNREGISTER_CONTROLLER": "ALTER CLUSTER",
}
# Documented, but no longer checked.
NOT_CHECKED = {
    "PRODUCE": "IDEMPOTENT_WRITE CLUSTER",  # since KIP-679
    "ELECT_LEADERS": "CLUSTER_ACTION CLUSTER",  # ControllerApis.handleElectLeaders checks ALTER
}
# Checked by KafkaApis or ControllerApis, but not documented.
NOT_DOCUMENTED = {
    "METADATA": "DESCRIBE CLUSTER",  # for the field of authorized operations
    "FIND_COORDINATOR": "CLUSTER_ACTION CLUSTER",  # of a share coordinator (KIP-932)
    "CREATE_TOPICS": "DESCRIBE_CONFIGS TOPIC",  # for the configs in the answer (KIP-525)
    "DELETE_TOPICS": "DELETE CLUSTER, DESCRIBE TOPIC",
    "INIT_PRODUCER_ID": "WRITE TOPIC, TWO_PHASE_COMMIT TRANSACTIONAL_ID",  # KIP-679, KIP-939
    "ADD_PARTITIONS_TO_TXN": "CLUSTER_ACTION CLUSTER",  # from brokers (KIP-890)
    "DESCRIBE_CONFIGS": "DESCRIBE_CONFIGS GROUP",  # KIP-848
    "ALTER_CONFIGS": "ALTER_CONFIGS GROUP",
    "ELECT_LEADERS": "ALTER CLUSTER",
    "INCREMENTAL_ALTER_CONFIGS": "ALTER_CONFIGS GROUP",
    "DESCRIBE_TRANSACTIONS": "DESCRIBE TOPIC",
    "CONSUMER_GROUP_HEARTBEAT": "DESCRIBE TOPIC",
    "CONSUMER_GROUP_DESCRIBE": "DESCRIBE TOPIC",
    "SHARE_GROUP_HEARTBEAT": "DESCRIBE TOPIC",
    "SHARE_GROUP_DESCRIBE": "DESCRIBE TOPIC",
    "ADD_RAFT_VOTER": "ALTER CLUSTER",  # KIP-853
    "REMOVE_RAFT_VOTER": "ALTER CLUSTER",
    "UPDATE_RAFT_VOTER": "CLUSTER_ACTION CLUSTER",
    "STREAMS_GROUP_HEARTBEAT": "CREATE CLUSTER",
    "STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE": "READ GROUP",  # KIP-1331
}
# Kafka's controllers check something else.
CONTROLLERS = {
    "FETCH": "CLUSTER_ACTION CLUSTER",
    "INCREMENTAL_ALTER_CONFIGS": "ALTER_CONFIGS TOPIC, ALTER_CONFIGS GROUP, ALTER_CONFIGS CLUSTER, CLUSTER_ACTION CLUSTER",
    "DESCRIBE_CLUSTER": "ALTER CLUSTER, DESCRIBE CLUSTER",
}


def pairs(text: str) -> set[str]:
    return set(text.split(", ")) if text else set()


def needed(requirements) -> set[str]:
    return {
        f"{each.operation.name} {each.resource.name}" for need in requirements for each in need.alternatives
    }


@pytest.mark.parametrize("row", BY_KEY)
def test_permissions_are_those_of_kafka(row):
    name = API_MODULES[row.key].upper()
    documented = pairs(DOCUMENTED.get(name, ""))
    stale, added = pairs(NOT_CHECKED.get(name, "")), pairs(NOT_DOCUMENTED.get(name, ""))
    assert stale <= documented and not added & documented
    assert needed(row.needs) == documented - stale | added
    on_controllers = needed(row.controller_needs) if row.controller_needs is not None else set()
    assert on_controllers == pairs(CONTROLLERS.get(name, ""))


def test_the_lists_name_served_apis():
    names = {API_MODULES[key].upper() for key in TABLE}
    assert set(DOCUMENTED) | set(NOT_DOCUMENTED) == names
    assert set(NOT_CHECKED) | set(CONTROLLERS) <= names


def paths_of(struct) -> set[str]:
    """The paths of all fields of a message, `topics.name` for instance."""
    found = set()
    for field in fields_of(struct):
        found.add(field.name)
        if field.struct is not None:
            found |= {f"{field.name}.{path}" for path in paths_of(field.struct)}
    return found


@pytest.mark.parametrize("row", BY_KEY)
def test_permissions_say_where_the_names_are(row):
    api = API_VERSIONS[row.key]
    asked, answered = paths_of(api.request), paths_of(api.response)
    for need in (*row.needs, *(row.controller_needs or ())):
        assert need.alternatives and isinstance(need.denied, Denied) and isinstance(need.when, When)
        for each in need.alternatives:
            assert set(each.names) <= asked | {ANY_NAME} and set(each.answer_names) <= answered
            assert bool(each.names or each.answer_names) == (each.resource is not AclResourceType.CLUSTER)
    errors = {
        need.error.name
        for need in (*row.needs, *(row.controller_needs or ()))
        if need.denied is not Denied.OMITTED
    }
    assert all(error.endswith("_AUTHORIZATION_FAILED") for error in errors)


@pytest.mark.parametrize("row", BY_KEY)
def test_each_row_has_its_modules(row):
    served_by = {
        *(("broker",) if row.broker or row.forwarded else ()),
        *(("controller",) if row.controller else ()),
    }
    assert served_by and served_by <= set(API_VERSIONS[row.key].served_by)
    assert not row.forwarded or row.controller
    for name in {row.broker, row.controller} - {None, NATIVE}:
        module = import_module(f"bowstring.engine.api.{name}")
        assert iscoroutinefunction(module.handle), name
        if name == row.broker:
            assert hasattr(module, "at_once") == row.at_once
            assert hasattr(module, "encoded") == row.encodes
            assert not (row.encodes and for_whole_request(row.needs))
            assert hasattr(module, "gather") == hasattr(module, "write") == row.gathers
    for part in row.refused:
        assert part.elements in paths_of(API_VERSIONS[row.key].request)
        names = {name if isinstance(name, str) else name[1] for name in part.names}
        assert {f"{part.results}.{name}" for name in names} <= paths_of(API_VERSIONS[row.key].response)


def test_every_api_of_kafkas_brokers_and_controllers_that_is_not_served_is_of_security_or_telemetry():
    unserved = {API_MODULES[key] for key in API_MODULES if key not in TABLE}
    words = ("telemetry",)
    assert all(any(word in name for word in words) for name in unserved), unserved


def test_keys_are_those_of_the_messages():
    for name, key in vars(ApiKeys).items():
        if name.isupper():
            assert API_MODULES[key] == name.lower() and API_VERSIONS[key].key == key
            assert API_VERSIONS[key].name == "".join(word.capitalize() for word in name.split("_"))
    assert len(API_MODULES) == sum(name.isupper() for name in vars(ApiKeys))


def test_what_is_served_follows_from_the_rows():
    forwarded = {key for key, row in TABLE.items() if row.forwarded}
    assert {key for key, module in BY_BROKER.handlers.items() if module == FORWARDED} == forwarded
    assert set(BY_CONTROLLER.offered) == {key for key, row in TABLE.items() if row.controller}
    assert set(BY_BROKER.offered) == {key for key, row in TABLE.items() if row.broker}
    assert set(BY_BROKER.offered) - set(BY_BROKER.handlers) == {ApiKeys.PRODUCE, ApiKeys.FETCH}
    assert list(BY_BROKER.offered) == sorted(BY_BROKER.offered)


def test_an_error_is_never_made_up_for_producers():
    assert {key for key, row in TABLE.items() if row.never_guessed} == {
        ApiKeys.PRODUCE,
        ApiKeys.INIT_PRODUCER_ID,
    }


def test_the_table_imports_no_handler_and_no_message():
    """They are imported on the first request."""
    program = (
        "import sys, bowstring.engine.api.table as table\n"
        "prefixes = ('bowstring.engine.api.', 'bowstring.protocol.messages.')\n"
        "print(*(name for name in sys.modules if name.startswith(prefixes)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG_S
    )
    assert set(ran.stdout.split()) == {"bowstring.engine.api.permissions", "bowstring.engine.api.table"}
