"""ApiVersions, and that every version of every API offered is answered."""

import pytest

from bowstring.engine.api.table import BY_BROKER
from bowstring.protocol import API_VERSIONS, decode_response, encode_request
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.describe_cluster import DescribeClusterRequest
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest

CLIENT = {"client_software_name": "test", "client_software_version": "1.0"}

# Requests that need a field to be valid; all others are valid as they are.
FIELDS = {18: CLIENT, 60: {"endpoint_type": 1}}


def offered(served, version=4):
    response = served.ask(ApiVersionsRequest(**CLIENT if version >= 3 else {}), version)
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}, response


@pytest.mark.parametrize("version", range(6))
def test_every_version_lists_the_same_apis(served, version):
    apis, response = offered(served, version)
    assert response.error_code == 0
    assert set(apis) == set(BY_BROKER.offered)
    assert apis[0] == (0, 13)  # librdkafka wants Produce from version 0 on
    for key in set(BY_BROKER.offered) - {0}:
        assert apis[key] == (API_VERSIONS[key].lowest, API_VERSIONS[key].highest)


def test_all_types_of_groups_are_offered(served):
    apis, response = offered(served)
    assert apis[68] == apis[69] == (0, 1)
    assert apis[88] == apis[89] == (0, 1)
    assert {each.name: each.max_version_level for each in response.finalized_features} == {
        "metadata.version": 33,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
    }
    assert response.finalized_features_epoch >= 0


def test_features_that_begin_at_zero_are_listed_from_version_4_on(served):
    names = [{each.name for each in offered(served, version)[1].supported_features} for version in (3, 4)]
    from_0 = {"kraft", "eligible.leader.replicas", "transaction", "group", "share", "streams"}
    assert names == [{"metadata.version"}, {"metadata.version"} | {f"{name}.version" for name in from_0}]


@pytest.mark.parametrize("name, version", [("", "1"), ("a b", "1"), ("-a", "1"), ("a", "1."), ("a", "")])
def test_a_malformed_software_name_is_refused(served, name, version):
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert served.ask(request, 3).error_code == Errors.INVALID_REQUEST.code


@pytest.mark.parametrize(
    "cluster, node, error",
    [
        (None, -1, Errors.NONE),
        (None, 7, Errors.NONE),
        ("own", 1, Errors.NONE),
        ("own", 7, Errors.REBOOTSTRAP_REQUIRED),
        ("own", -1, Errors.REBOOTSTRAP_REQUIRED),
        ("other", 1, Errors.REBOOTSTRAP_REQUIRED),
    ],
)
def test_a_client_that_means_another_broker_is_sent_away(served, cluster, node, error):
    """KIP-1242."""
    if cluster == "own":
        cluster = served.ask(DescribeClusterRequest()).cluster_id
    request = ApiVersionsRequest(**CLIENT, cluster_id=cluster, node_id=node)
    answer = served.ask(request, 5)
    assert answer.error_code == error.code
    assert bool(answer.api_keys) == (error is Errors.NONE)
    assert served.ask(request, 4).error_code == 0


def test_a_version_that_kafka_holds_back_closes_the_connection(served):
    with pytest.raises(ConnectionError):
        served.ask(InitProducerIdRequest(transaction_timeout_ms=1000), 6)


@pytest.mark.parametrize("version", [6, 99])
def test_a_version_too_new_is_answered_in_version_0(served, version):
    frame = bytearray(encode_request(ApiVersionsRequest(**CLIENT), 4, 7, "test"))
    frame[2:4] = version.to_bytes(2, "big")
    served.client.send(bytes(frame))
    correlation_id, response = decode_response(18, 0, served.client.receive())
    assert (correlation_id, response.error_code) == (7, Errors.UNSUPPORTED_VERSION.code)
    (only,) = response.api_keys
    assert (only.api_key, only.min_version, only.max_version) == (18, 0, API_VERSIONS[18].highest)
    assert offered(served)[1].error_code == 0  # the connection stays open


@pytest.mark.parametrize("key", [key for key in BY_BROKER.offered if key not in (0, 1)])
def test_every_version_of_every_api_is_answered(served, key):
    api = API_VERSIONS[key]
    for version in range(api.lowest, api.highest + 1):
        names = {field.name for field in api.request.__layout__.fields if field.versions[0] <= version}
        fields = {name: value for name, value in FIELDS.get(key, {}).items() if name in names}
        assert served.ask(api.request(**fields), version) is not None
