"""A share group through power cuts: a record whose acknowledgement was answered never comes again, the others do."""

import threading

from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import ClientError
from bowstring.clients.producer.producer import Producer
from bowstring.clients.share.consumer import ShareConsumer
from bowstring.clients.share.records import Outcome
from tests.support.waiting import pause, wait_until

TOPIC, GROUP = "shared", "sharers"
IN_FLIGHT = 200


class Sharing:
    """A writer, and a member that accepts all it gets."""

    def __init__(self, port: int) -> None:
        self._where = f"127.0.0.1:{port}"
        self._over = threading.Event()
        self._written: dict[int, bool] = {}  # offsets
        self._delivered: set[int] = set()
        self._done: set[int] = set()
        self._again: list[int] = []
        self.refusals: dict[str, str] = {}
        with Admin(self._where) as admin:
            admin.create_topic(TOPIC, 1)
            admin.alter_configs("group", GROUP, set={"share.auto.offset.reset": "earliest"})
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    def count(self) -> dict[str, int]:
        """The number of answers so far."""
        return {"shared": len(self._done)}

    def end(self) -> None:
        """Ends the threads."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        with Producer(self._where, linger_ms=2) as producer:
            while not self._over.is_set():
                futures = [producer.send(TOPIC, b"%d" % number) for number in range(IN_FLIGHT)]
                producer.flush()
                for future in futures:
                    if future.exception(0) is None:
                        self._written[future.result(0).offset] = True
                pause(0.02, "the pace of the load")

    def _read(self) -> None:
        with ShareConsumer(
            self._where,
            group_id=GROUP,
            max_poll_records=50,
            request_timeout_ms=2000,
            on_acknowledged=self._acknowledged,
        ) as consumer:
            consumer.subscribe(TOPIC)
            while not self._over.is_set():
                try:
                    offsets = {record.offset for record in consumer.poll(timeout=0.2)}
                except ClientError as error:
                    self.refusals["share"] = str(error)
                    continue
                self._again += sorted(offsets & self._done)
                self._delivered |= offsets

    def _acknowledged(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self.refusals["acknowledgement"] = str(outcome.error)
            return
        for first, last in outcome.offsets:
            self._done.update(range(first, last + 1))

    def check(self) -> None:
        """Nothing comes again after its acknowledgement, and everything written comes."""
        assert not self._again, f"acknowledged, and delivered again: {self._again[:5]} of {len(self._again)}"
        written = set(self._written)
        wait_until(
            lambda: written <= self._delivered,
            lambda: f"not delivered: {sorted(written - self._delivered)[:5]}; refusals {self.refusals}",
        )
