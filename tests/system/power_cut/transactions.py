"""A producer of transactions through power cuts: each number is written to two partitions with the group's offset."""

import threading

from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from bowstring.clients.errors import ClientError, ClientTimeoutError, ProducerFencedError
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from tests.support.waiting import HANG_S, pause, wait_until

TOPIC, GROUP, TRANSACTIONAL_ID = "halves", "transfers", "transfers"
PARTITIONS = 2
ABORT_EACH = 5
CALL_MS = 1000


class Transfers:
    """Writes numbers continuously; every fifth is aborted."""

    def __init__(self, port: int) -> None:
        self._where = f"127.0.0.1:{port}"
        self._over = threading.Event()
        self._number = 0
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.refusals: dict[str, str] = {}
        admin = AdminClient({"bootstrap.servers": self._where, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def count(self) -> dict[str, int]:
        """The number of answers so far."""
        return {"transactions": len(self.committed)}

    def end(self) -> None:
        """Ends the thread."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            with Producer(
                self._where,
                transactional_id=TRANSACTIONAL_ID,
                max_block_ms=CALL_MS,
                request_timeout_ms=CALL_MS,
                transaction_timeout_ms=60_000,
            ) as producer:
                self._transact(producer)

    def _transact(self, producer: Producer) -> None:
        while not self._over.is_set():
            self._number += 1
            commits = bool(self._number % ABORT_EACH)
            try:
                producer.begin_transaction()
                for partition in range(PARTITIONS):
                    producer.send(TOPIC, b"%d" % self._number, partition=partition)
                producer.send_offsets({TopicPartition(TOPIC, 0): self._number}, GROUP)
            except ClientError as error:
                self.refusals["transaction"] = str(error)
                commits = False
            if producer.in_transaction and not self._end(producer, commits):
                return

    def _end(self, producer: Producer, commits: bool) -> bool:
        """Ends a transaction and notes how; False if the outcome stays unknown: a new producer continues."""
        while not self._over.is_set():
            try:
                if commits:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
            except ProducerFencedError as error:
                self.refusals["transaction"] = str(error)
                return False
            except ClientTimeoutError as error:  # the same call again returns the outcome
                self.refusals["transaction"] = str(error)
            except ClientError as error:
                self.refusals["transaction"] = str(error)
                commits = False
                pause(0.02, "the pace of the load")
            else:
                (self.committed if commits else self.aborted).add(self._number)
                return True
        return False

    def check(self) -> None:
        """Committed records are there completely and once, aborted ones are not, and the offset matches."""
        committed, aborted = set(self.committed), set(self.aborted)
        consumer = Consumer(
            {
                "bootstrap.servers": self._where,
                "group.id": GROUP,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        (offset,) = (each.offset for each in consumer.committed([Place(TOPIC, 0)], HANG_S))
        last = max(committed, default=0)
        assert offset >= last, f"the offset went back from {last} to {offset}"
        needed = {*committed, offset} if offset > 0 else committed
        # The coordinator completes its decisions a moment after its start.
        found = wait_until(
            lambda: _with(needed, [_values(consumer, partition) for partition in range(PARTITIONS)]),
            lambda: f"committed, but not all of it there: {sorted(needed)[-3:]}",
            every_s=0.1,
        )
        consumer.close()
        for partition, numbers in enumerate(found):
            assert numbers == sorted(set(numbers)), f"partition {partition}: twice or out of order"
            assert not aborted.intersection(numbers), f"partition {partition} shows aborted records"
        halves = [{number for number in numbers if number <= last} for numbers in found]
        assert halves[0] == halves[1], f"half a transaction: {halves[0] ^ halves[1]}"


def _with(needed: set[int], found: list[list[int]]) -> list[list[int]] | None:
    return found if all(needed.issubset(numbers) for numbers in found) else None


def _values(consumer: Consumer, partition: int) -> list[int]:
    """The numbers of committed records of a partition."""
    consumer.assign([Place(TOPIC, partition, OFFSET_BEGINNING)])
    values: list[int] = []
    while True:
        for message in consumer.consume(10_000, 1):
            if message.error() is not None:
                return values
            values.append(int(message.value()))
