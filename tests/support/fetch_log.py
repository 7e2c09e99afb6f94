"""A fake broker's partition, which serves a test's batches to fetches, including gaps and transactions."""

from bowstring._native.record.decode import batch_headers
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from bowstring.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.support.fake_broker import TOPIC_ID, FakeBroker


class FetchLog:
    """Partition 0 of any requested topic.

    Args:
        batches: encoded record batches, in order.
        aborted: (producer id, first offset) in every answer.
        batches_each: number of batches in one answer.
    """

    def __init__(self, batches, aborted=(), batches_each=100):
        self.batches = [(batch_headers(data)[0], bytes(data)) for data in batches]
        self.aborted = aborted
        self.batches_each = batches_each
        self.error = 0

    @property
    def end(self):
        return self.batches[-1][0].last_offset + 1 if self.batches else 0

    def serve(self):
        broker = FakeBroker()
        broker.handlers[FetchRequest] = self.fetch
        broker.handlers[ListOffsetsRequest] = self.list_offsets
        return broker

    def fetch(self, version, request):
        assert request.session_id == 0, "no sessions here"
        responses = []
        for topic in request.topics:
            for part in topic.partitions:
                responses.append(
                    FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[self.partition(part.fetch_offset)])
                )
        return FetchResponse(session_id=0, responses=responses)

    def partition(self, offset):
        code = self.error
        if not code and not 0 <= offset <= self.end:
            code = Errors.OFFSET_OUT_OF_RANGE.code
        found = [data for header, data in self.batches if header.last_offset >= offset][: self.batches_each]
        aborted = [AbortedTransaction(producer_id=p, first_offset=first) for p, first in self.aborted]
        return PartitionData(
            partition_index=0,
            error_code=code,
            high_watermark=self.end,
            last_stable_offset=self.end,
            log_start_offset=0,
            aborted_transactions=aborted,
            records=b"" if code else b"".join(found),
        )

    def list_offsets(self, version, request):
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=part.partition_index,
                            timestamp=-1,
                            offset=0 if part.timestamp == -2 else self.end,
                        )
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
