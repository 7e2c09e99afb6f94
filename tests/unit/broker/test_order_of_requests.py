"""Requests that a client pipelines take effect in their order."""

from bowstring.engine.protocol.messages import find_coordinator as fc
from bowstring.engine.protocol.messages import offset_commit as oc
from bowstring.engine.protocol.messages import offset_fetch as of
from tests.support.plane_client import PlaneClient


def test_commits_take_effect_in_their_order(served):
    """A large one is worked on in slices; a small one behind it does not overtake it."""
    partitions = 1500
    served.create_topic("t", partitions)

    client = PlaneClient(served.broker.port)

    def commit(indexes, offset):
        parts = [
            oc.OffsetCommitRequestPartition(partition_index=i, committed_offset=offset, committed_metadata="")
            for i in indexes
        ]
        topic = oc.OffsetCommitRequestTopic(name="t", partitions=parts)
        return oc.OffsetCommitRequest(
            group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=[topic]
        )

    served.ask(fc.FindCoordinatorRequest(key="g", key_type=0), 2)
    last = partitions - 1
    for offset in range(1, 20, 2):
        client.send(commit(range(partitions), offset), 8)
        client.send(commit([last], offset + 1), 8)
        for _ in range(2):
            client.receive(oc.OffsetCommitRequest.api_key, 8)
        asked = of.OffsetFetchRequestTopic(name="t", partition_indexes=[last])
        answer = client.call(of.OffsetFetchRequest(group_id="g", topics=[asked]), 6)
        assert answer.topics[0].partitions[0].committed_offset == offset + 1
    client.close()
