"""Requests that brokers forward inside Envelope, over sockets."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.api import envelope
from bowstring.engine.network.peers import Peers
from bowstring.engine.requests.request import Request
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.protocol import encode, encode_request
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from bowstring.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from bowstring.protocol.messages.envelope import EnvelopeRequest
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.records.principal import DefaultPrincipalData
from tests.support.broker_cluster import run

PRINCIPAL = b"\0\0" + encode(DefaultPrincipalData(type="User", name="alice"), 0)
ADDRESS = bytes([127, 0, 0, 1])
CREATION = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])


def enveloped(body, version, principal=PRINCIPAL, address=ADDRESS):
    data = encode_request(body, version, 7, "client")
    return EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=address)


def test_a_broker_forwards_in_an_envelope(tmp_path):
    async def scenario(cluster):
        broker = cluster.brokers[10]
        asked = []
        ask = broker.quorum.ask_leader

        async def noted(body, *others):
            if isinstance(body, EnvelopeRequest):
                asked.append(body)
            return await ask(body, *others)

        broker.quorum.ask_leader = noted
        for peer, packed in (("10.1.2.3:99", b"\x0a\1\2\3"), ("[::1]:99", bytes(15) + b"\1"), ("", bytes(4))):
            request = Request(
                api_key=19,
                version=5,
                body=CREATION,
                listener=broker.advertised[0],
                principal="User:alice",
                peer=peer,
            )
            answer = await broker.dispatcher.handler(19)(request)
            known = (Errors.NONE.code, Errors.TOPIC_ALREADY_EXISTS.code)
            assert answer.topics[0].error_code in known
            assert (asked[-1].client_host_address, asked[-1].request_principal) == (packed, PRINCIPAL)

    run(tmp_path, scenario)


def test_a_controller_that_ends_without_an_answer_is_asked_again(tmp_path):
    async def scenario(cluster):
        broker = cluster.brokers[10]
        ask = broker.quorum.ask_leader
        asked = []

        async def broken_once(body, *others):
            asked.append(body)
            if len(asked) == 1:
                raise KafkaError(Errors.NOT_CONTROLLER, "the active controller 1 does not answer")
            return await ask(body, *others)

        broker.quorum.ask_leader = broken_once
        listener = broker.advertised[0]
        request = Request(api_key=19, version=5, body=CREATION, listener=listener, peer="127.0.0.1:99")
        answer = await broker.dispatcher.handler(19)(request)
        assert answer.topics[0].error_code == 0

    run(tmp_path, scenario)


def test_an_envelope_that_makes_no_sense_is_refused(tmp_path):
    async def scenario(cluster):
        wrong = {
            Errors.INVALID_REQUEST: [
                enveloped(MetadataRequest(), 9),
                enveloped(CREATION, 5, address=b"\1"),
                EnvelopeRequest(request_data=b"\0\x13", request_principal=PRINCIPAL),
                EnvelopeRequest(
                    request_data=b"\0\x13\0\5\0\0\0\7\xff\xff\0\xff", request_principal=PRINCIPAL
                ),
            ],
            Errors.UNSUPPORTED_VERSION: [
                EnvelopeRequest(request_data=b"\0\x13\0\x63\0\0\0\7\xff\xff\0", request_principal=PRINCIPAL)
            ],
            Errors.PRINCIPAL_DESERIALIZATION_FAILURE: [
                enveloped(CREATION, 5, None),
                enveloped(CREATION, 5, b"\0\x09"),
                enveloped(CREATION, 5, b"\0\0\x20"),
            ],
        }
        for error, requests in wrong.items():
            for request in requests:
                assert Errors.of((await cluster.ask(request)).error_code) is error, request
        assert "t" not in cluster.image().topics

    run(tmp_path, scenario)


def test_a_controller_that_is_not_active_refuses_envelopes(tmp_path):
    async def scenario(cluster):
        active = (await cluster.controllers.leader()).node_id
        idle = next(id for id in cluster.controllers.nodes if id != active)
        topic = DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata",
            partitions=[DescribeQuorumRequestPartitionData(partition_index=0)],
        )
        peers = Peers("test")
        connection = peers.at(idle, "127.0.0.1", cluster.controllers.ports[idle])
        try:
            for body, version in ((CREATION, 5), (DescribeQuorumRequest(topics=[topic]), 2)):
                answer, _ = await connection.exchange(enveloped(body, version), (0, 0), 20)
                assert answer.error_code == Errors.NOT_CONTROLLER.code
                answer = await cluster.ask(enveloped(body, version))
                assert answer.error_code == 0
        finally:
            peers.close()

    run(tmp_path, scenario)


@pytest.mark.parametrize("has_stopped", [True, False])
def test_an_answer_of_a_lost_leadership_is_none(has_stopped):
    """The leadership ends while the topic is created; the controller may notice later."""

    controller = SimpleNamespace(is_active=True)

    async def create(request):
        controller.is_active = not has_stopped
        raise KafkaError(Errors.NOT_CONTROLLER)

    request = Request(api_key=58, version=0, body=enveloped(CREATION, 5), listener=None)
    with pytest.raises(KafkaError) as caught:
        asyncio.run(
            envelope.handle(
                request, controller=controller, handler_of={19: create}.__getitem__, time_slices=TimeSlices()
            )
        )
    assert caught.value.error is Errors.NOT_CONTROLLER
