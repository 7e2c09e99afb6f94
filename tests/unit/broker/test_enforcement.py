"""What the table of APIs says that a request needs is checked on every listener: of brokers and of controllers."""

import pytest

from bowstring.engine.api.permissions import ANY_NAME, Denied, When
from bowstring.engine.api.table import NATIVE, TABLE
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import API_MODULES, ApiKeys
from bowstring.protocol.schema import ARRAY, fields_of
from tests.support.enforced_node import NAME, codes_of, enforced_node
from tests.support.fake_authorizer import ANY

UNKNOWN = "unknown"
REFUSALS = {
    each.code
    for each in (
        Errors.TOPIC_AUTHORIZATION_FAILED,
        Errors.GROUP_AUTHORIZATION_FAILED,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
}


TYPES = {
    When.TOPIC_CONFIGS: 2,
    When.GROUP_CONFIGS: 32,
    When.CLUSTER_CONFIGS: 4,
    When.NODE_CONFIGS: 4,
    When.LOGGERS: 8,
}

OF_GROUPS = {
    ApiKeys.OFFSET_DELETE: "g",
    ApiKeys.SHARE_FETCH: "g",
    ApiKeys.ALTER_SHARE_GROUP_OFFSETS: "s",
    ApiKeys.DELETE_SHARE_GROUP_OFFSETS: "s",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with enforced_node(tmp_path_factory.mktemp("node")) as made:
        yield made


@pytest.fixture
def authorizer(node):
    with node.instructed() as authorizer:
        yield authorizer


# ---- requests that name what they need


def has(declared, path, version):
    """Whether a version of a message has a path."""
    name, _, rest = path.partition(".")
    field = next((each for each in fields_of(declared) if each.name == name), None)
    if field is None or not field.versions[0] <= version <= field.versions[1]:
        return False
    return not rest or has(field.struct, rest, version)


def fill(message, path, value):
    """Puts a value at a path; makes the elements on the way."""
    name, _, rest = path.partition(".")
    (field,) = (each for each in fields_of(type(message)) if each.name == name)
    if field.struct is None:
        setattr(message, name, [value] if field.kind == ARRAY else value)
        return
    elements = getattr(message, name)
    if not elements:
        elements = [field.struct()] if field.kind == ARRAY else field.struct()
        setattr(message, name, elements)
    for each in elements if field.kind == ARRAY else (elements,):
        fill(each, rest, value)


def request_for(key, version, need):
    """A request of that version to which a requirement applies; None if none of that version can need it."""
    if (need.when is When.BY_CLIENT and version >= 4) or (need.when is When.BY_BROKER and version < 4):
        return None
    declared = API_VERSIONS[key].request
    request = declared()
    if need.when is When.WITHOUT_TRANSACTIONAL_ID:
        request.transactional_id = None
    if need.when is When.TWO_PHASE_COMMIT:
        if version < 6:
            return None
        request.enable2_pc = True
    if key in (ApiKeys.SHARE_GROUP_HEARTBEAT, ApiKeys.STREAMS_GROUP_HEARTBEAT):
        request.group_id = request.member_id = "g"
    if need.when is When.SHARE_KEYS:
        if version < 6:
            return None
        request.key_type, request.coordinator_keys = 2, [f"g:{'A' * 22}:0"]
    for permission in need.alternatives:
        for path in permission.names:
            if path != ANY_NAME and has(declared, path, version):
                fill(request, path, NAME)
    fill_elements(key, request, version)
    return request


def fill_elements(key, request, version):
    """Names what gets the error where an answer has none of its own."""
    for part in TABLE[key].refused:
        if has(type(request), part.elements, version):
            fill_part(request, part)


def fill_part(element, part):
    head, _, rest = part.elements.partition(".")
    if not getattr(element, head):
        (field,) = (each for each in fields_of(type(element)) if each.name == head)
        setattr(element, head, [field.struct()] if field.struct is not None else [0])
    if rest:
        for each in getattr(element, head):
            fill_part(each, part._replace(elements=rest))
    elif part.inner is not None:
        for each in getattr(element, head):
            fill_part(each, part.inner)


def listeners_of(row):
    """Where it is served, and with which requirements."""
    if row.broker and row.broker != NATIVE:
        yield "broker", row.needs
    if row.controller:
        yield "controller", row.needs if row.controller_needs is None else row.controller_needs


def checked(denied):
    return [
        pytest.param(row.key, listener, need, id=f"{API_MODULES[row.key]}-{listener}-{number}")
        for row in TABLE.values()
        for listener, needs in listeners_of(row)
        for number, need in enumerate(needs)
        if need.denied is denied and row.key != ApiKeys.CREATE_DELEGATION_TOKEN  # needs a login
    ]


@pytest.mark.parametrize(("key", "listener", "need"), checked(Denied.REQUEST))
def test_a_request_without_the_permission_is_refused_in_every_version(node, authorizer, key, listener, need):
    api = API_VERSIONS[key]
    authorizer.denied = {(each.operation, each.resource, ANY) for each in need.alternatives}
    asked = 0
    for version in range(api.lowest, api.highest + 1):
        request = request_for(key, version, need)
        if request is None:
            continue
        asked += 1
        answer = node.ask(listener, request, version)
        silent = TABLE[key].is_refused_silently and version < 3
        assert codes_of(answer) >= (set() if silent else {need.error.code}), (version, answer)
        if silent:
            assert not answer.results
    assert len(authorizer.counted) == asked
    assert asked or need.when is When.TWO_PHASE_COMMIT  # of a version that is held back


@pytest.mark.parametrize(("key", "listener", "need"), checked(Denied.REQUEST))
def test_a_request_with_the_permission_is_answered(node, authorizer, key, listener, need):
    api = API_VERSIONS[key]
    request = request_for(key, api.highest, need)
    if TABLE[key].is_between_nodes or request is None:
        return  # the node itself sends these
    assert not codes_of(node.ask(listener, request, api.highest)) & REFUSALS
    assert authorizer.asked


# ---- elements of requests


def fill_lists(message, version):
    """Gives empty lists of partitions one, because errors of topics are theirs."""
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if not field.versions[0] <= version <= field.versions[1] or field.kind != ARRAY:
            continue
        if not value and field.name.startswith("partition") and field.name != "partition_errors":
            setattr(message, field.name, [field.struct()] if field.struct is not None else [0])
        elif value and field.struct is not None:
            for each in value:
                fill_lists(each, version)


def element_request(key, version, need, name, topic_id):
    """A request that names an element by which a requirement applies; None if none of that version can."""
    if need.when is When.BY_CLIENT and version >= 4:
        return None
    declared = API_VERSIONS[key].request
    request = declared()
    paths = [
        path for permission in need.alternatives for path in permission.names if has(declared, path, version)
    ]
    if need.when in TYPES:
        paths = ["resources.resource_name"]
    if not paths:
        return None
    by_id = [path for path in paths if path.endswith("topic_id")]
    if topic_id is not None and (not by_id or (key == ApiKeys.METADATA and version < 12)):
        return None
    named = [path for path in paths if path not in by_id]
    if topic_id is None and not named:
        return None
    for path in named if topic_id is None else by_id:
        fill(request, path, name if topic_id is None else topic_id)
    if topic_id is not None and key in (ApiKeys.METADATA, ApiKeys.DELETE_TOPICS):
        request.topics[0].name = None
    if key == ApiKeys.OFFSET_FETCH and version == 1:
        fill(request, "topics.name", name)
    if key in OF_GROUPS:
        request.group_id = OF_GROUPS[key]
    if key == ApiKeys.SHARE_FETCH:
        request.member_id = "m"
    if key == ApiKeys.ADD_PARTITIONS_TO_TXN:
        request.v3_and_below_transactional_id = "x"
    fill_lists(request, version)
    if need.when in TYPES:
        request.resources[0].resource_type = TYPES[need.when]
        if TYPES[need.when] in (4, 8):
            request.resources[0].resource_name = "1"
    if need.when is When.TRANSACTION_KEYS:
        if version < 1:
            return None
        request.key_type = 1
    if key == ApiKeys.CREATE_TOPICS:
        request.topics[0].num_partitions = request.topics[0].replication_factor = 1
    return request


@pytest.mark.parametrize(("key", "listener", "need"), checked(Denied.ELEMENT))
@pytest.mark.parametrize("name", [NAME, UNKNOWN])
def test_an_element_without_the_permission_is_refused_in_every_version(
    node, authorizer, key, listener, need, name
):
    """Also one that does not exist: the answer does not say which."""
    if TABLE[key].broker == NATIVE or (
        not any(each.names for each in need.alternatives) and not TYPES.get(need.when)
    ):
        return
    if need.when is When.MISSING_TOPICS and name is NAME:
        return
    if key == ApiKeys.SHARE_ACKNOWLEDGE or (key == ApiKeys.SHARE_FETCH and name is UNKNOWN):
        return  # needs a session; unknown ids are told
    api = API_VERSIONS[key]
    authorizer.denied = {(each.operation, each.resource, ANY) for each in need.alternatives}
    if key == ApiKeys.DELETE_TOPICS and name is UNKNOWN:  # who may describe it learns that there is none
        authorizer.denied.add((AclOperation.DESCRIBE, AclResourceType.TOPIC, ANY))
    ids = (node.topic_id,) if name is NAME else ()
    asked = 0
    for version in range(api.lowest, api.highest + 1):
        for topic_id in (None, *ids):
            request = element_request(key, version, need, name, topic_id)
            if request is None:
                continue
            asked += 1
            answer = node.ask(listener, request, version)
            assert need.error.code in codes_of(answer), (version, request, answer)
            assert not codes_of(answer) & {Errors.UNKNOWN_TOPIC_OR_PARTITION.code}, (version, answer)
    assert asked
