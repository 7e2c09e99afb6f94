"""Markers of decided transactions, and questions about batches, when a broker hangs."""

import asyncio
from types import SimpleNamespace

from bowstring.engine.metadata.image import BrokerImage, ClusterImage, Endpoint, PartitionImage, TopicImage
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.transactions.marker_sender import MarkerSender
from bowstring.engine.transactions.partitions import Producer
from bowstring.engine.transactions.transaction import Status, Transaction
from bowstring.engine.transactions.verifier import TransactionVerifier
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.support.node_double import NodeDouble, served
from tests.support.waiting import FOR_EVER_S, wait_until_async

ME, HANGS, NEXT = 1, 2, 3
MOVES, STAYS = ("t", 0), ("t", 1)
DECIDED = Transaction("x", 7, 1, 60_000, Status.PREPARE_COMMIT, frozenset({MOVES, STAYS}), 1, 1, 2)


def all_written(request):
    """The answer to WriteTxnMarkers."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=0)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def partitions_of(request):
    return [
        (topic.name, index)
        for each in request.markers
        for topic in each.topics
        for index in topic.partition_indexes
    ]


class Cluster:
    """Broker 1, which coordinates, and two others: one that hangs, and one that leads what the other has led."""

    def __init__(self):
        self.hangs, self.next = NodeDouble(), NodeDouble(all_written)
        self.image = ClusterImage()
        topic = self.image.topics["t"] = TopicImage("t", b"t" * 16)
        topic.partitions = [
            PartitionImage((HANGS, NEXT), (HANGS, NEXT), each, 0, 0, ()) for each in (HANGS, NEXT)
        ]

    def begin(self):
        for id, double in ((HANGS, self.hangs), (NEXT, self.next)):
            listener = (Endpoint("L", double.host, double.port, 0),)
            self.image.brokers[id] = BrokerImage(id, 0, b"", listener, None, fenced=False, directories=())
        self.peers = BrokerPeers(self, "L")

    def fence(self):
        """The controller fences the broker that hangs, and elects another leader."""
        self.image.brokers[HANGS] = self.image.brokers[HANGS]._replace(fenced=True)
        partitions = self.image.topics["t"].partitions
        partitions[0] = partitions[0]._replace(leader=NEXT, leader_epoch=1)
        self.peers.look()


def run(scenario):
    async def all_of_it():
        cluster = Cluster()
        async with served(cluster.hangs, cluster.next):
            cluster.begin()
            try:
                await scenario(cluster)
            finally:
                cluster.peers.close()

    asyncio.run(all_of_it())


def test_markers_go_to_the_next_leader_once_the_image_has_it():
    async def scenario(cluster):
        marked = []
        sender = MarkerSender(
            *(cluster, ME, cluster.peers, None),
            timeout_s=FOR_EVER_S,
            marked=lambda hosted, transaction, partitions: marked.extend(partitions),
        )
        hosted = SimpleNamespace(dismissed=False, leader_epoch=5)
        sender.send(hosted, DECIDED, [MOVES, STAYS])
        await cluster.hangs.until_asked()
        await wait_until_async(lambda: marked == [STAYS])
        later = Transaction("y", 8, 1, 60_000, Status.PREPARE_ABORT, frozenset({MOVES}), 1, 1, 2)
        sender.send(hosted, later, [MOVES])  # waits behind those that are on their way
        cluster.fence()
        await wait_until_async(lambda: marked == [STAYS, MOVES, MOVES])
        assert len(cluster.hangs.asked) == 1
        sent = [
            (each.producer_id, each.coordinator_epoch)
            for request in cluster.next.asked[1:]
            for each in request.markers
        ]
        assert sorted(sent) == [(7, 5), (8, 5)], "each once, with what the first leader may have written"
        await sender.stop()

    run(scenario)


def test_a_question_to_a_coordinator_that_hangs_is_answered_once_the_image_has_another():
    async def scenario(cluster):
        coordinator = SimpleNamespace(
            node_id=ME,
            config=SimpleNamespace(add_partitions_to_txn_retry_backoff_max_ms=100),
            leader_of=lambda transactional_id: cluster.image.topics["t"].partitions[0].leader,
        )
        verifier = TransactionVerifier(coordinator, cluster.peers, FOR_EVER_S)
        asking = asyncio.ensure_future(verifier.verify(Producer("x", 7, 1), [MOVES], adds=True))
        await cluster.hangs.until_asked()
        cluster.fence()
        assert await asking == {MOVES: Errors.NETWORK_EXCEPTION}, "its producer sends the batch again"
        await verifier.stop()

    run(scenario)
