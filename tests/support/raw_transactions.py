"""A transactional producer of KIP-890's protocol as raw requests, each to the broker of a cluster that must answer it."""

import time
from typing import Any, Protocol

from bowstring._native.record.encode import encode_batch
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import end_txn as et
from bowstring.protocol.messages import find_coordinator as fc
from bowstring.protocol.messages import init_producer_id as ip
from bowstring.protocol.messages import produce as p
from bowstring.protocol.messages import txn_offset_commit as toc
from bowstring.protocol.schema import Request
from tests.support.waiting import wait_until

GROUP_TYPE, TRANSACTION_TYPE = 0, 1
RETRIED = {
    each.code
    for each in (
        Errors.CONCURRENT_TRANSACTIONS,
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NETWORK_EXCEPTION,
        Errors.NOT_COORDINATOR,
        Errors.NOT_ENOUGH_REPLICAS,
        Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.REQUEST_TIMED_OUT,
    )
}
TIMEOUT_MS = 60_000


class Brokers(Protocol):
    """A cluster with a request method for each broker."""

    def ask(self, id: int, request: Request, version: int | None = None) -> Any:
        """Sends one request to a broker."""


def coordinator_of(brokers: Brokers, through: int, key: str, key_type: int = TRANSACTION_TYPE) -> int:
    """The id of the coordinator of a transactional id or a group, once there is one."""
    request = fc.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])

    def found() -> int | None:
        (answer,) = brokers.ask(through, request, 4).coordinators
        return None if answer.error_code else answer.node_id

    return int(wait_until(found, f"nobody coordinates {key}"))


class RawProducer:
    """Has a producer id and an epoch; each end of a transaction raises the epoch."""

    def __init__(self, brokers: Brokers, through: int, id: str) -> None:
        self._brokers = brokers
        self._through = through
        self.id = id
        self.coordinator = coordinator_of(brokers, through, id)
        request = ip.InitProducerIdRequest(transactional_id=id, transaction_timeout_ms=TIMEOUT_MS)
        answer = self._ask(self.coordinator, request, 5, lambda answer: answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences: dict[tuple[str, int], int] = {}

    def _ask(self, to: int, request: Request, version: int, code: Any) -> Any:
        """Repeats a request until the answer is not retriable; the answer must be a success."""
        last = None

        def answered() -> Any:
            nonlocal last
            last = self._brokers.ask(to, request, version)
            return None if code(last) in RETRIED else last

        answer = wait_until(answered, lambda: f"{request} gets {last}", every_s=0.05)
        assert code(answer) == 0, (Errors.of(code(answer)), answer)
        return answer

    def produce(self, leader: int, topic: str, partition: int, value: bytes) -> None:
        """Writes a record; the leader adds the partition to the transaction."""
        sequence = self._sequences.get((topic, partition), 0)
        self._sequences[topic, partition] = sequence + 1
        batch = encode_batch(
            # Retention would delete an old record soon.
            [(None, value, time.time_ns() // 1_000_000, ())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        parts = [p.PartitionProduceData(index=partition, records=batch)]
        request = p.ProduceRequest(
            transactional_id=self.id,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[p.TopicProduceData(name=topic, partition_data=parts)],
        )
        self._ask(leader, request, 12, lambda answer: answer.responses[0].partition_responses[0].error_code)

    def commit_offset(self, group: str, topic: str, offset: int) -> None:
        """Commits an offset of partition 0; the group's coordinator adds its partition to the transaction."""
        part = toc.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = toc.TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[toc.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])],
        )
        coordinator = coordinator_of(self._brokers, self._through, group, GROUP_TYPE)
        self._ask(coordinator, request, 5, lambda answer: answer.topics[0].partitions[0].error_code)

    def end(self, *, commit: bool) -> None:
        """Ends the transaction and adopts the next epoch."""
        request = et.EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = self._ask(self.coordinator, request, 5, lambda answer: answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
