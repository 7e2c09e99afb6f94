"""The controller of a node alone: without a listener only its own broker reaches it."""

import asyncio

from bowstring.engine.broker.broker import Broker
from bowstring.engine.raft.voters import Node
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from bowstring.protocol.messages.describe_cluster import DescribeClusterRequest
from bowstring.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S

STALE = BrokerHeartbeatRequest(broker_id=9, broker_epoch=9)


def run(directory, scenario, **settings):
    async def all_of_it():
        given = {"log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:0", "node.id": "4"}
        broker = Broker(given | {name.replace("_", "."): value for name, value in settings.items()})
        broker.open()
        async with asyncio.timeout(HANG_S):
            try:
                await broker.start()
                await scenario(broker)
            finally:
                await broker.stop()

    asyncio.run(all_of_it())


def test_without_a_listener_it_answers_its_own_broker(tmp_path):
    async def scenario(broker):
        server, quorum = broker.server, broker.quorum
        assert (server.listeners, server.advertised, server.dispatcher) == ([], [], None)
        assert server.voter_endpoints == () and not hasattr(server, "plane")
        assert quorum.is_leader and quorum.leader_node == Node(4, "", 0)
        assert (await quorum.ask_leader(STALE)).error_code == Errors.STALE_BROKER_EPOCH.code
        assert server.requests.counters[STALE.api_key].requests > 1
        described = await quorum.ask_leader(DescribeClusterRequest(endpoint_type=2))
        assert list(described.brokers) == []  # it has no address

    run(tmp_path, scenario)


def test_with_a_listener_it_is_registered_with_its_address(tmp_path):
    port = steady_port()

    async def scenario(broker):
        assert [each.port for each in broker.server.listeners] == [port]
        assert broker.quorum.leader_node == Node(4, "127.0.0.1", port)
        assert (await broker.quorum.ask_leader(STALE)).error_code == Errors.STALE_BROKER_EPOCH.code
        described = await broker.quorum.ask_leader(DescribeClusterRequest(endpoint_type=2))
        assert [(each.broker_id, each.port) for each in described.brokers] == [(4, port)]

    run(
        tmp_path,
        scenario,
        listeners=f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
        controller_quorum_bootstrap_servers=f"127.0.0.1:{port}",
    )


def test_the_quorum_is_described_without_addresses_that_do_not_exist(tmp_path):
    async def scenario(broker):
        wanted = DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata",
            partitions=[DescribeQuorumRequestPartitionData(partition_index=0)],
        )
        found = await broker.quorum.ask_leader(DescribeQuorumRequest(topics=[wanted]))
        (partition,) = found.topics[0].partitions
        assert (partition.leader_id, [each.replica_id for each in partition.current_voters]) == (4, [4])
        assert [(node.node_id, node.listeners) for node in found.nodes] == [(4, [])]

    run(tmp_path, scenario)
