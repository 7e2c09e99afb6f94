"""Requests of local readers answered: who this broker is, and which bytes of which files are to be read."""

import asyncio
import os
import socket
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from bowstring._native.log import LogError, PartitionLog
from bowstring._native.log_share import shared_segments
from bowstring._native.log_waiters import LogWaiters
from bowstring.engine.broker import log_lines
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.image import TopicImage
from bowstring.engine.protocol.local_reads import (
    ANY_TOPIC_ID,
    SEGMENTS_MAX,
    WAIT_MS_MAX,
    Hello,
    Segment,
    Segments,
    SegmentsRequest,
    decode_request,
    encode_error,
    encode_hello,
    encode_segments,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker

_READ_COMMITTED: Final = 1
_ISOLATIONS: Final = (0, _READ_COMMITTED)


class Answer(NamedTuple):
    """A frame, and the open files that go with it; who has it closes them."""

    frame: bytes
    descriptors: tuple[int, ...] = ()

    def close(self) -> None:
        """Closes this process's descriptors."""
        for fd in self.descriptors:
            os.close(fd)


class LocalRequests:
    """Answers on the control loop.

    Attributes:
        waiters: those who wait for something to read.
        answered: requests for segments, since start.
    """

    def __init__(self, broker: "Broker", instance: str, waiters: LogWaiters) -> None:
        self._broker = broker
        self._hello = Hello(instance, broker.cluster_id, broker.node_id)
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self.waiters = waiters
        self.answered = 0

    async def answer(self, connection: socket.socket, principal: str, body: bytes) -> Answer:
        """The answer to one request.

        Raises:
            LocalFrameError: The bytes are no request.
        """
        header, request = decode_request(body)
        number = header.correlation_id
        try:
            if request is None:
                raise KafkaError(Errors.UNSUPPORTED_VERSION)
            if isinstance(request, str):
                return Answer(encode_hello(number, self._hello))
            found = await self._segments(connection, principal, request)
        except (KafkaError, LogError) as error:
            return Answer(encode_error(number, error.code, str(error)))
        except Exception:
            log_lines.error("bug: a local reader could not be answered", traceback=True)
            return Answer(encode_error(number, Errors.UNKNOWN_SERVER_ERROR.code, "see the broker's log"))
        self.answered += 1
        descriptors = tuple(each.fd for each in found.segments)
        answer = Answer(encode_segments(number, found), descriptors)
        if not request.descriptors:
            answer.close()
            return answer._replace(descriptors=())
        return answer

    # ------------------------------------------------------------ segments

    def _authorize(self, principal: str, topic: TopicImage) -> None:
        """What Fetch asks of a principal: READ on the topic. Without an authorizer every principal has it."""

    def _log(self, request: SegmentsRequest, principal: str) -> tuple[TopicImage, PartitionLog]:
        topic = self._broker.metadata.image.topics.get(request.topic)
        if topic is None:
            raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        self._authorize(principal, topic)
        if request.topic_id not in (ANY_TOPIC_ID, topic.id):
            raise KafkaError(Errors.UNKNOWN_TOPIC_ID)
        log = self._broker.leader_log(request.topic, request.partition, request.current_leader_epoch)
        return topic, log

    async def _segments(
        self, connection: socket.socket, principal: str, request: SegmentsRequest
    ) -> Segments:
        if request.isolation not in _ISOLATIONS or not 0 < request.max_segments <= SEGMENTS_MAX:
            raise KafkaError(
                Errors.INVALID_REQUEST, f"max segments must be 1 to {SEGMENTS_MAX}, isolation 0 or 1"
            )
        found = await self._look(request, principal)
        wait_s = min(request.max_wait_ms, WAIT_MS_MAX) / 1000
        deadline = time.monotonic() + wait_s
        while not found.segments and found.next_offset >= 0 and wait_s > 0:
            # Woken or not is remembered from before the next look on: nothing slips between.
            number, woken = self._add_waiter(request)
            try:
                found = await self._look(request, principal)
                if not found.segments:
                    interrupted = await self._wait(connection, woken, wait_s)
                    found = await self._look(request, principal)
                    if interrupted:
                        break
            finally:
                self._waiting.pop(number, None)
                self.waiters.remove(number)
            wait_s = deadline - time.monotonic()
        return found

    def _add_waiter(self, request: SegmentsRequest) -> "tuple[int, asyncio.Future[bool]]":
        try:
            number = self.waiters.add(request.topic, request.partition)
        except KeyError:
            raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION) from None
        woken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[number] = woken
        return number, woken

    async def _look(self, request: SegmentsRequest, principal: str) -> Segments:
        topic, log = self._log(request, principal)
        work = partial(_look_at, log, request)
        job = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            found = await asyncio.shield(job)
        except asyncio.CancelledError:
            job.add_done_callback(_close_unwanted)
            raise
        found.topic_id = topic.id
        found.leader_epoch = topic.partitions[request.partition].leader_epoch
        return found

    # ------------------------------------------------------------ waiting

    async def _wait(self, connection: socket.socket, woken: "asyncio.Future[bool]", wait_s: float) -> bool:
        """Until the log has moved, time is over, or the reader has gone or says something: then True."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(wait_s, _settle, woken, False)
        loop.add_reader(connection.fileno(), _settle, woken, True)
        try:
            return await woken
        finally:
            loop.remove_reader(connection.fileno())
            timer.cancel()

    def wake(self) -> None:
        """Some logs have moved: those who wait for them look again."""
        for number in self.waiters.take():
            if (woken := self._waiting.get(number)) is not None:
                _settle(woken, False)


def _settle(future: "asyncio.Future[bool]", value: bool) -> None:
    if not future.done():
        future.set_result(value)


def _look_at(log: PartitionLog, request: SegmentsRequest) -> Segments:
    """On an executor thread: it may wait for the disk."""
    committed = request.isolation == _READ_COMMITTED
    start, high, stable, history, next_offset, found = shared_segments(
        log, request.fetch_offset, read_committed=committed, max_segments=request.max_segments
    )
    segments = [Segment(*each) for each in found]
    answer = Segments(ANY_TOPIC_ID, -1, start, high, stable, next_offset, history, segments)
    if committed and segments:
        end = segments[-1].end_offset if next_offset < 0 else next_offset
        answer.aborted = sorted(log.aborted_transactions(request.fetch_offset, end), key=lambda each: each[1])
    return answer


def _close_unwanted(job: "asyncio.Future[Segments]") -> None:
    if job.cancelled() or job.exception() is not None:
        return
    for each in job.result().segments:
        os.close(each.fd)
