"""A transactional client as a process: a writer to several partitions, or a copier of one with its offset.

Each step is a line of JSON in the history before it is taken, and another one when it is known to have succeeded.
"""

import argparse
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from tests.support.transactional_load import QUICK, transactional_producer

SOURCE, TARGET, GROUP = "source", "target", "copiers"
TIMEOUT_MS = 5000
CALL_S = 10.0
FENCED = 3


class History:
    """The lines that a client writes; a kill leaves those that are written."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def say(self, event: str, transaction: str, **facts: Any) -> None:
        """Writes a line."""
        os.write(self._file, json.dumps({"event": event, "txn": transaction, **facts}).encode() + b"\n")


class TransactionalClient:
    """What writers and copiers have in common."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.random = random.Random(f"{options.seed} {options.id} {os.getpid()}")
        self.history = History(options.history)
        self.number = 0
        self.producer = transactional_producer(
            options.bootstrap,
            options.id,
            **{"transaction.timeout.ms": TIMEOUT_MS, "linger.ms": 0, "debug": "eos", "log_level": 7},
        )

    def run(self) -> None:
        """Works until the file says that it is over."""
        stop = Path(self.options.stop)
        while not stop.exists():
            self.number += 1
            self.name = f"{self.options.id}.{os.getpid()}.{self.number}"
            self.producer.begin_transaction()
            try:
                goes_on = self.work()
            except KafkaException as error:
                self._refuse(error)
                goes_on = False
            self.end(commit=goes_on and self.random.random() < 0.8)

    def work(self) -> bool:
        """Does the work of a transaction; returns False if it must be aborted."""
        raise NotImplementedError

    def send(self, topic: str, partition: int, value: str) -> None:
        """Notes and sends a record."""
        self.history.say("sends", self.name, topic=topic, partition=partition, value=value)
        self.producer.produce(topic, value.encode(), partition=partition)

    def end(self, *, commit: bool) -> bool:
        """Ends the transaction; returns whether it is committed."""
        self.history.say("commits" if commit else "aborts", self.name)
        while True:
            try:
                if commit:
                    self.producer.commit_transaction(CALL_S)
                else:
                    self.producer.abort_transaction(CALL_S)
                self.history.say("committed" if commit else "aborted", self.name)
                return commit
            except KafkaException as error:
                if not error.args[0].retriable():
                    self._refuse(error)
                    commit = False

    def _refuse(self, error: KafkaException) -> None:
        """Continues with an abort if that is possible; ends the process when it is fenced."""
        reason = error.args[0]
        print("refused", self.name, reason, file=sys.stderr, flush=True)
        if not (reason.txn_requires_abort() or reason.retriable()):
            sys.exit(FENCED)


class Writer(TransactionalClient):
    """Writes to some partitions of the source."""

    def work(self) -> bool:
        partitions = self.random.sample(range(self.options.partitions), self.random.randint(1, 2))
        for number in range(self.random.randint(1, 3)):
            for partition in partitions:
                self.send(SOURCE, partition, f"{self.name} {number}")
        if self.random.random() < 0.5:
            self.producer.flush(CALL_S)
        return True


class Copier(TransactionalClient):
    """Copies a partition of the source to the target."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.place = TopicPartition(SOURCE, options.partition)
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": options.bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "debug": "cgrp,fetch",
                **QUICK,
                "log_level": 7,
            }
        )
        self.seek()

    def seek(self) -> None:
        """Continues at the group's offsets."""
        while True:
            try:
                (found,) = self.consumer.committed([self.place], CALL_S)
                break
            except KafkaException as error:
                print("no offset yet", error, file=sys.stderr, flush=True)
        self.position = max(0, found.offset)
        self.consumer.assign([TopicPartition(SOURCE, self.options.partition, self.position)])

    def work(self) -> bool:
        records = self.consumer.consume(self.random.randint(1, 10), 0.2)
        records = [each for each in records if each.error() is None]
        if not records:
            return False
        for each in records:
            self.send(TARGET, self.options.partition, f"{self.name} {each.offset()} {each.value().decode()}")
        self.position = records[-1].offset() + 1
        self.history.say("offset", self.name, partition=self.options.partition, offset=self.position)
        place = TopicPartition(SOURCE, self.options.partition, self.position)
        self.producer.send_offsets_to_transaction([place], self.consumer.consumer_group_metadata(), CALL_S)
        return True

    def end(self, *, commit: bool) -> bool:
        committed = super().end(commit=commit)
        if not committed:
            self.seek()
        return committed


def main() -> None:
    """Runs a client until it is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["writer", "copier"])
    for name in ("--bootstrap", "--id", "--history", "--stop", "--seed"):
        parser.add_argument(name, required=True)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--partition", type=int, default=0)
    options = parser.parse_args()
    try:
        (Writer if options.kind == "writer" else Copier)(options).run()
    except KafkaException as error:
        print("ends", error, file=sys.stderr, flush=True)
        sys.exit(FENCED)


if __name__ == "__main__":
    main()
