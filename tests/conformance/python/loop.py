"""The driver protocol: one JSON object a line on standard input, one answer a line on standard output.

    {"id": 7, "op": "produce", "args": {…}}  ->  {"id": 7, "ok": {…}}  or
                                                 {"id": 7, "error": {"code": 3, "message": "…"}}
Requests of one driver run one after the other; group members poll on threads of their own. Bytes travel as base64,
null as null. `drivers.py` lists the operations; every language's driver answers the same ones.
"""

import base64
import json
import queue
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any

Json = dict[str, Any]


class ClientError(Exception):
    """An error that the client reported, with Kafka's error code if the client reports it."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(message)
        self.code = code


def pack(data: bytes | None) -> str | None:
    """Encodes bytes as base64, null as null."""
    return None if data is None else base64.b64encode(data).decode()


def unpack(text: str | None) -> bytes | None:
    """Reverses `pack`."""
    return None if text is None else base64.b64decode(text)


def flood_value(index: int, size: int) -> bytes:
    """Returns the value of generated record `index`: its number in eight digits, then dots up to `size` bytes."""
    return b"%08d" % index + b"." * (size - 8)


class Summary:
    """The answer of `consume` with `summary` instead of the records: enough to detect loss, duplicates and disorder."""

    def __init__(self) -> None:
        self.count = self.size_bytes = self.crc = 0
        self.ordered = True
        self._last: dict[int, tuple[int, int]] = {}

    def add(self, partition: int, offset: int, value: bytes) -> None:
        """Counts one record."""
        number = int(value[:8])
        last = self._last.get(partition, (-1, -1))
        self.ordered = self.ordered and offset > last[0] and number > last[1]
        self._last[partition] = (offset, number)
        self.count += 1
        self.size_bytes += len(value)
        self.crc = (self.crc + zlib.crc32(value)) & 0xFFFFFFFF

    def answer(self) -> Json:
        """Returns the summary in the protocol's form."""
        return {"count": self.count, "bytes": self.size_bytes, "crc": self.crc, "ordered": self.ordered}


class Collector:
    """Records of one `consume`, complete or as a summary."""

    def __init__(self, count: int, timeout_ms: int, summary: bool) -> None:
        self.wanted = count
        self.summary = Summary() if summary else None
        self.records: list[Json] = []
        self.taken = 0
        self._deadline = time.monotonic() + timeout_ms / 1000

    def open(self) -> bool:
        """Whether more records are needed and time is left."""
        return self.taken < self.wanted and time.monotonic() < self._deadline

    def add(self, record: Json, value: bytes | None) -> None:
        """Adds one record; drops records beyond the requested count."""
        if self.taken >= self.wanted:
            return
        self.taken += 1
        if self.summary is not None:
            self.summary.add(record["partition"], record["offset"], value or b"")
        else:
            self.records.append(record | {"value": pack(value)})

    def answer(self) -> Json:
        """Returns the protocol's answer."""
        return self.summary.answer() if self.summary is not None else {"records": self.records}


def flood(send: Callable[[int, bytes, bytes], None], pause: Callable[[float], None], args: Json) -> None:
    """Sends `count` generated records: record i to partition i modulo `partitions`, at `rate_per_s` if given."""
    rate = args.get("rate_per_s") or 0
    began = time.monotonic()
    for index in range(args["count"]):
        send(index % args["partitions"], b"%d" % index, flood_value(index, args["size"]))
        if rate and index % 50 == 49:
            pause(max(0.0, began + index / rate - time.monotonic()))


class MemberThread:
    """One group member: its thread owns the client, polls it, and runs the driver's requests between polls.

    A client's module supplies: `open` makes the consumer, `poll` waits about 0.1 s and calls `record`,
    `assignment` returns the owned partitions, `commit` commits the position, `close` leaves the group.
    """

    def __init__(self, args: Json) -> None:
        self.args = args
        self._lock = threading.Lock()
        self._assignment: list[list[Any]] = []
        self._records: list[list[Any]] = []
        self._lost: list[list[Any]] = []
        self._error: str | None = None
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], queue.SimpleQueue[Exception | None]]]
        self._jobs = queue.SimpleQueue()
        self._leaving = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def open(self) -> None:
        raise NotImplementedError

    def poll(self) -> None:
        raise NotImplementedError

    def assignment(self) -> Iterable[tuple[str, int]]:
        raise NotImplementedError

    def commit(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def record(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        """Adds one record; called by `poll`."""
        with self._lock:
            self._records.append([topic, partition, offset, pack(value)])

    def _run(self) -> None:
        try:
            self.open()
            while not self._leaving:
                self.poll()
                now = sorted([topic, partition] for topic, partition in self.assignment())
                with self._lock:
                    self._lost += [each for each in self._assignment if each not in now]
                    self._assignment = now
                while not self._jobs.empty():
                    self._do(*self._jobs.get())
        except Exception as error:
            self._error = f"{type(error).__name__}: {error}"

    def _do(self, job: Callable[[], None], done: "queue.SimpleQueue[Exception | None]") -> None:
        try:
            job()
            done.put(None)
        except Exception as error:
            done.put(error)

    def _ask(self, job: Callable[[], None]) -> None:
        done: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._jobs.put((job, done))
        error = done.get(timeout=240)
        if error is not None:
            raise error

    def state(self) -> Json:
        """Returns the protocol's answer to `member`."""
        with self._lock:
            if self._error is not None:
                raise ClientError(None, self._error)
            return {"assignment": self._assignment, "records": list(self._records), "lost": list(self._lost)}

    def commit_now(self) -> None:
        """Commits the position on the member's thread; raises the client's error."""
        self._ask(self.commit)

    def leave(self) -> None:
        """Closes the consumer, which leaves the group, and ends the thread."""

        def finish() -> None:
            self._leaving = True
            self.close()

        self._ask(finish)
        self._thread.join()


def member_operations(kind: type[MemberThread]) -> dict[str, Callable[[Json], Json]]:
    """Returns the operations join, member, commit and leave for one kind of member."""
    members: dict[str, MemberThread] = {}

    def join(args: Json) -> Json:
        members[args["handle"]] = kind(args)
        return {}

    def commit(args: Json) -> Json:
        members[args["handle"]].commit_now()
        return {}

    def leave(args: Json) -> Json:
        members.pop(args["handle"]).leave()
        return {}

    return {
        "join": join,
        "commit": commit,
        "leave": leave,
        "member": lambda args: members[args["handle"]].state(),
    }


def run(operations: dict[str, Callable[[Json], Json]]) -> None:
    """Answers requests until standard input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer: Json = {"id": request["id"]}
        try:
            answer["ok"] = operations[request["op"]](request["args"])
        except ClientError as error:
            answer["error"] = {"code": error.code, "message": str(error)}
        except Exception as error:
            code = getattr(error, "errno", None)
            answer["error"] = {"code": code, "message": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
