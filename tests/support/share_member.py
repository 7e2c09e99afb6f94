"""A member of a share group, as raw requests (KIP-932)."""

import uuid
from typing import Any

from bowstring.protocol.messages import share_acknowledge as sa
from bowstring.protocol.messages import share_fetch as sf
from tests.support.wire_client import WireClient

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
FINAL_EPOCH = -1

Acknowledged = tuple[int, int, list[int]]


class ShareMember:
    """One member with one connection, which fetches the partitions of one topic.

    Attributes:
        epoch: Of its next request.
    """

    def __init__(self, client: WireClient, group: str, topic_id: bytes, member_id: str | None = None) -> None:
        self.client = client
        self.group = group
        self.topic_id = topic_id
        self.id = member_id or str(uuid.uuid4())
        self.epoch = 0

    def fetch_answer(
        self, *partitions: int, acknowledged: dict[int, list[Acknowledged]] | None = None, **fields: Any
    ) -> sf.ShareFetchResponse:
        """Sends a ShareFetch that adds partitions to the session; returns the whole answer."""
        acknowledged = acknowledged or {}
        options: dict[str, Any] = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "share_session_epoch": self.epoch,
        } | fields
        topic = sf.FetchTopic(
            topic_id=self.topic_id,
            partitions=[
                sf.FetchPartition(
                    partition_index=index,
                    acknowledgement_batches=[
                        sf.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                        for first, last, types in acknowledged.get(index, ())
                    ],
                )
                for index in sorted({*partitions, *acknowledged})
            ],
        )
        topics = [topic] if topic.partitions else []
        request = sf.ShareFetchRequest(group_id=self.group, member_id=self.id, topics=topics, **options)
        answer: sf.ShareFetchResponse = self.client.ask(request)
        if answer.error_code == 0 and options["share_session_epoch"] == self.epoch:
            self.epoch += 1
        return answer

    def fetch(self, *partitions: int, **fields: Any) -> dict[int, sf.PartitionData]:
        """Sends a ShareFetch; returns what it says of each partition."""
        answer = self.fetch_answer(*partitions, **fields)
        assert answer.error_code == 0, answer
        return {each.partition_index: each for topic in answer.responses for each in topic.partitions}

    def acquire(self, partition: int = 0, **fields: Any) -> list[tuple[int, int, int]]:
        """Fetches one partition; returns the ranges of offsets with their delivery counts."""
        found = self.fetch(partition, **fields).get(partition)
        if found is None:
            return []
        assert found.error_code == 0, found
        return [(each.first_offset, each.last_offset, each.delivery_count) for each in found.acquired_records]

    def acknowledge(
        self,
        first: int,
        last: int,
        *types: int,
        partition: int = 0,
        epoch: int | None = None,
        renew: bool = False,
    ) -> int:
        """Sends a ShareAcknowledge; returns the error code, of the request or of the partition."""
        batch = sa.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        topic = sa.AcknowledgeTopic(
            topic_id=self.topic_id,
            partitions=[sa.AcknowledgePartition(partition_index=partition, acknowledgement_batches=[batch])],
        )
        request = sa.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=renew,
            topics=[topic],
        )
        answer: sa.ShareAcknowledgeResponse = self.client.ask(request)
        if answer.error_code:
            return answer.error_code
        if epoch is None:
            self.epoch += 1
        return answer.responses[0].partitions[0].error_code

    def close(self) -> int:
        """Closes the session; returns the error code."""
        return self.fetch_answer(share_session_epoch=FINAL_EPOCH).error_code
