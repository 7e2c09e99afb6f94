"""One producer's life by a seed: threads that send in every way, failing brokers, a check at the end."""

import contextlib
import faulthandler
import gc
import random
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from bowstring.clients.errors import (
    BrokerError,
    BufferFullError,
    ClientError,
    ClientTimeoutError,
    ClosedError,
    NoBrokerError,
)
from bowstring.clients.producer.producer import Producer
from tests.support.produce_cluster import TOPIC, ProduceCluster, Script
from tests.support.waiting import HANG_S, pause

SWITCH_S = 0.00001
TRACED = 400
EPOCH_NEAR_ITS_END = 32_764


@dataclass
class Sent:
    """A bulk or a record that the producer accepted: its values in order, and the source of its outcome."""

    partition: int
    values: list[bytes]
    future: Any


class ProducerLife:
    """One simulation.

    Attributes:
        story: Its settings, for the report of a failing seed.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.story: dict[str, object] = {}
        self.sent: list[Sent] = []
        self.called: list[object] = []
        self.asked_to_be_called = 0
        self._stop = threading.Event()
        self._failures: list[BaseException] = []

    def run(self) -> None:
        """All of it.

        Raises:
            AssertionError: a promise was broken.
        """
        chance = self.chance
        self.story["script"] = script = self._script()
        self.story["settings"] = settings = self._settings()
        self.partitions = chance.choice([1, 1, 2, 3, 5])
        cluster = ProduceCluster(
            self.seed,
            brokers=chance.choice([1, 2, 3]),
            partitions=self.partitions,
            script=script,
            produce_version=chance.choice([13, 13, 12, 9, 8, 7, 3]),
            first_epoch=chance.choice([0, 0, 0, EPOCH_NEAR_ITS_END]),
        )
        interval, threshold = sys.getswitchinterval(), gc.get_threshold()
        if chance.random() < 0.3:
            sys.setswitchinterval(SWITCH_S)
        if chance.random() < 0.2:
            gc.set_threshold(20)
        faulthandler.dump_traceback_later(HANG_S, exit=False)
        try:
            self._live(cluster, settings)
        except BaseException as problem:
            trace = "\n".join(cluster.trace[-TRACED:])
            raise AssertionError(f"seed {self.seed}: {problem!r}\n{self.story}\n{trace}") from problem
        finally:
            faulthandler.cancel_dump_traceback_later()
            sys.setswitchinterval(interval)
            gc.set_threshold(*threshold)
            cluster.close()

    # ------------------------------------------------------------ choices of the seed

    def _script(self) -> Script:
        chance, script = self.chance, Script()
        names = [
            name for name in vars(script) if name not in ("delay_s", "largest_batch", "delay", "silence")
        ]
        for name in chance.sample(names, chance.randrange(0, 6)):
            setattr(script, name, chance.choice([0.02, 0.05, 0.15]))
        if chance.random() < 0.3:
            script.largest_batch = chance.choice([1, 3, 10])
        if chance.random() < 0.4:
            script.delay, script.delay_s = chance.choice([0.1, 1.0]), chance.choice([0.001, 0.02])
        if chance.random() < 0.15:
            script.silence = 0.03
        return script

    def _settings(self) -> dict:
        chance = self.chance
        batch_size = chance.choice([150, 400, 1500, 20_000])
        short = chance.random() < 0.4
        settings = {
            "linger_ms": chance.choice([0, 0, 1, 5]),
            "batch_size": batch_size,
            "buffer_memory": chance.choice([3_000, 20_000, 1_000_000]),
            "max_block_ms": chance.choice([100, 20_000]),
            "retry_backoff_ms": chance.choice([1, 1, 10]),
            "retry_backoff_max_ms": 20,
            "request_timeout_ms": chance.choice([100, 300]),
            "delivery_timeout_ms": chance.choice([120, 300]) if short else 20_000,
            "max_in_flight": chance.choice([1, 2, 5, 5]),
            "compression": chance.choice(["none", "none", "lz4"]),
            "acks": chance.choice(["all"] * 6 + [1, 0]),
        }
        if chance.random() < 0.2:
            settings["retries"] = chance.choice([1, 3])
        if chance.random() < 0.2:
            settings["metadata_max_age_ms"] = 5
        if chance.random() < 0.3:
            settings["max_request_size"] = max(1000, 2 * batch_size)
        return settings

    # ------------------------------------------------------------ threads

    def _live(self, cluster: ProduceCluster, settings: dict) -> None:
        chance = self.chance
        producer = Producer(cluster.bootstrap, **settings)
        try:
            seeds = [chance.randrange(1 << 30) for _ in range(chance.choice([1, 2, 3]))]
            workers = [
                threading.Thread(target=self._guarded, args=(producer, number, seed), daemon=True)
                for number, seed in enumerate(seeds)
            ]
            hasty = chance.random() < 0.2
            calm = chance.random() < 0.5
            for worker in workers:
                worker.start()
            if hasty:
                pause(chance.random() * 0.1, "closed at a moment at random")
                self._close(producer, chance.choice([0, 0.02, None]))
            for worker in workers:
                worker.join(HANG_S)
                assert not worker.is_alive(), "a caller hangs"
            if calm:
                cluster.script = Script()
            if not hasty and chance.random() < 0.7:
                producer.flush(HANG_S)
                self._all_done()
        finally:
            self._stop.set()
            self._close(producer, None if chance.random() < 0.7 else 0.01)
        if self._failures:
            raise self._failures[0]
        self._check_end(producer)
        assert not cluster.bugs, cluster.bugs
        if settings["acks"] != 0:
            self._check_stored(cluster, once=settings["acks"] == "all")

    def _guarded(self, producer: Producer, number: int, seed: int) -> None:
        try:
            self._work(producer, number, random.Random(seed))
        except ClosedError:
            return
        except BaseException as error:
            self._failures.append(error)

    def _work(self, producer: Producer, number: int, chance: random.Random) -> None:
        at = 0
        rest = chance.choice([0.0, 0.0, 0.1])
        for _ in range(chance.choice([20, 60, 150])):
            if self._stop.is_set():
                return
            what = chance.random()
            count = 1 if what < 0.85 else chance.randrange(1, 40)
            size = chance.choice([0, 10, 100])
            values = [b"%d:%d:" % (number, at + i) + b"." * size for i in range(count)]
            at += count
            partition = chance.randrange(self.partitions)
            # No room, or no broker: nothing was accepted. Part of a bulk may have been; which part is
            # unknown.
            with contextlib.suppress(BufferFullError, NoBrokerError, BrokerError):
                if what < 0.85:
                    self._send_one(producer, partition, values[0], chance)
                elif what < 0.93:
                    table = pa.table({"value": values, "partition": [partition] * count})
                    self.sent.append(Sent(partition, values, producer.send_arrow(TOPIC, table)))
                else:
                    self.sent.append(Sent(partition, values, producer.send_columns(TOPIC, partition, values)))
            if chance.random() < 0.01:
                producer.flush(HANG_S)
            if chance.random() < rest:
                pause(chance.random() * 0.004, "the pace of a caller")

    def _send_one(self, producer: Producer, partition: int, value: bytes, chance: random.Random) -> None:
        callback = None
        if chance.random() < 0.3:
            callback = chance.choice([self.called.append, self._raise])
        future = producer.send(TOPIC, value, partition=partition, on_delivery=callback)
        self.asked_to_be_called += callback is not None
        self.sent.append(Sent(partition, [value], future))
        if chance.random() < 0.02:
            with contextlib.suppress(ClientError):
                future.result(HANG_S)

    def _raise(self, future: object) -> None:
        self.called.append(future)
        raise RuntimeError("a callback that fails")

    def _close(self, producer: Producer, timeout: float | None) -> None:
        closer = threading.Thread(target=producer.close, args=(timeout,), daemon=True)
        closer.start()
        closer.join(HANG_S)
        assert not closer.is_alive(), "close() hangs"

    # ------------------------------------------------------------ promises

    def _all_done(self) -> None:
        assert all(sent.future.done() for sent in self.sent), "flush() returns before all is done"

    def _check_end(self, producer: Producer) -> None:
        shared, sender = producer.accumulator, producer._sender
        sender.thread.join(HANG_S)
        assert not sender.thread.is_alive(), "the sender's thread goes on"
        assert isinstance(sender.failure, ClosedError | None), sender.failure
        self._all_done()
        assert not shared.unfinished and not shared.active and not shared.completed
        assert shared.buffered_bytes == 0, shared.buffered_bytes
        assert (shared.waiters, shared.room_waiters, shared.flushes) == (0, 0, 0)
        assert all(not queue.in_flight and not queue.waiting for queue in shared.queues.values())
        assert len(self.called) == self.asked_to_be_called, "each callback is called once"

    def _check_stored(self, cluster: ProduceCluster, *, once: bool) -> None:
        places: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
        for index, log in enumerate(cluster.logs):
            for offset, value in enumerate(log.values):
                places[value].append((index, offset))
        for sent in self.sent:
            self._check_outcome(sent, places)
        if once:
            doubled = {value[:20]: found for value, found in places.items() if len(found) > 1}
            assert not doubled, f"stored more than once: {doubled}"
            self._check_order(cluster)

    def _check_outcome(self, sent: Sent, places: dict[bytes, list[tuple[int, int]]]) -> None:
        """Records are where their futures place them."""
        try:
            error = sent.future.exception(0)
        except ClientTimeoutError as problem:
            raise AssertionError("a future is not done") from problem
        if error is not None:
            assert isinstance(error, ClientError), error
            return
        for value in sent.values:
            assert places[value], f"lost: {value[:20]!r}"
            assert all(index == sent.partition for index, _ in places[value]), "the wrong partition"
        found = sent.future.result(0)
        if isinstance(found, list):
            told = [place.offset for place in found]
            assert all(
                offset == -1 or (sent.partition, offset) in self._firsts(sent, places) for offset in told
            )
        elif found.offset >= 0:
            assert (found.partition, found.offset) in places[sent.values[0]], (
                f"{found} {places[sent.values[0]]}"
            )

    def _firsts(self, sent: Sent, places: dict[bytes, list[tuple[int, int]]]) -> set[tuple[int, int]]:
        return {place for value in sent.values for place in places[value]}

    def _check_order(self, cluster: ProduceCluster) -> None:
        for index, log in enumerate(cluster.logs):
            last: dict[int, int] = {}
            for value in log.values:
                thread, number = map(int, value.split(b":")[:2])
                assert number > last.get(thread, -1), (
                    f"out of order in partition {index}: thread {thread}, {number} after {last[thread]}"
                )
                last[thread] = number
