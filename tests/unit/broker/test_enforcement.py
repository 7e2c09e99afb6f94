"""What the table of APIs says that a request needs is checked on every listener: of brokers and of controllers."""

import pytest

from bowstring import Broker
from bowstring.engine.api.permissions import ANY_NAME, Denied, When
from bowstring.engine.api.table import NATIVE, TABLE
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import API_MODULES, ApiKeys
from bowstring.protocol.schema import ARRAY, fields_of
from tests.support.fake_authorizer import ANY, FakeAuthorizer
from tests.support.serving import steady_port
from tests.support.wire_client import WireClient

NAME = "secret"
REFUSALS = {
    each.code
    for each in (
        Errors.TOPIC_AUTHORIZATION_FAILED,
        Errors.GROUP_AUTHORIZATION_FAILED,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
}


class Node:
    """A broker that is its own controller, whose authorizer the tests instruct."""

    def __init__(self, directory, authorizer):
        self.authorizer = authorizer
        port = steady_port()
        self.broker = Broker(
            data_dir=directory,
            config={
                "process.roles": "broker,controller",
                "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
                "controller.quorum.voters": f"1@127.0.0.1:{port}",
                "node.id": "1",
            },
        ).start()
        self.ports = {"broker": self.broker.port, "controller": port}

    def ask(self, listener, request, version):
        client = WireClient(self.ports[listener])
        try:
            return client.ask(request, version)
        finally:
            client.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    authorizer = FakeAuthorizer()
    with pytest.MonkeyPatch.context() as patch:
        for module in ("broker", "controller_node"):
            patch.setattr(f"bowstring.engine.broker.{module}.Authorizer", lambda configs: authorizer)
        made = Node(tmp_path_factory.mktemp("node"), authorizer)
    yield made
    made.broker.stop()


@pytest.fixture
def authorizer(node):
    node.authorizer.denied.clear()
    node.authorizer.asked.clear()
    node.authorizer.counted.clear()
    yield node.authorizer
    node.authorizer.denied.clear()


# ---- requests that name what they need


def has(declared, path, version):
    """Whether a version of a message has a path."""
    name, _, rest = path.partition(".")
    (field,) = (each for each in fields_of(declared) if each.name == name)
    if not field.versions[0] <= version <= field.versions[1]:
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


def codes_of(message):
    """All error codes of an answer."""
    found = set()
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            found.add(value)
        elif field.struct is not None and value is not None:
            for each in value if isinstance(value, list) else [value]:
                found |= codes_of(each)
    return found


def listeners_of(row):
    """Where it is served, and with which requirements."""
    if row.broker and row.broker != NATIVE:
        yield "broker", row.needs
    if row.controller:
        yield "controller", row.needs if row.controller_needs is None else row.controller_needs


CHECKED = [
    pytest.param(row.key, listener, need, id=f"{API_MODULES[row.key]}-{listener}-{number}")
    for row in TABLE.values()
    for listener, needs in listeners_of(row)
    for number, need in enumerate(needs)
    if need.denied is Denied.REQUEST
]


@pytest.mark.parametrize(("key", "listener", "need"), CHECKED)
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
