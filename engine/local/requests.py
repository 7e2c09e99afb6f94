"""Answers requests of local readers: the broker's identity, and which bytes of which files can be read."""

import asyncio
import os
import socket
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from bowstring._native.log.local_segments import shared_segments
from bowstring._native.log.partition_log import LogError, PartitionLog
from bowstring._native.server.log_waiters import LogWaiters
from bowstring.engine import event_log
from bowstring.engine.local.tokens import LocalTokens, Login
from bowstring.engine.metadata.image import TopicImage
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.local_reads import (
    ANY_TOPIC_ID,
    SEGMENTS_MAX,
    WAIT_MS_MAX,
    Hello,
    HelloRequest,
    Segment,
    Segments,
    SegmentsRequest,
    decode_request,
    encode_error,
    encode_hello,
    encode_segments,
)
from bowstring.protocol.messages import ApiKeys

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.led_logs import LedLogs

_READ_COMMITTED: Final = 1
_ISOLATIONS: Final = (0, _READ_COMMITTED)
# Most aborted transactions in one answer: 4 MiB of the 64 MiB that readers accept. Beyond that, the answer
# covers fewer offsets.
ABORTED_MAX: Final = 1 << 18
_NO_LIMIT: Final = (1 << 63) - 1
LOGIN_S: Final = 10.0
"""How long a connection may be without a login, where one is needed."""
CONNECTIONS_OF_PRINCIPAL_MAX: Final = 64


class Answer(NamedTuple):
    """A frame and the open files sent with it; the holder closes them. `is_last`: the connection ends."""

    frame: bytes
    descriptors: tuple[int, ...] = ()
    is_last: bool = False

    def close(self) -> None:
        """Closes the descriptors of this process."""
        for fd in self.descriptors:
            os.close(fd)


class LocalClient:
    """The process at the other end.

    Attributes:
        opened_s: when it connected, by the clock of `LocalTokens`.
        login: of its token; None: it has not logged in, or need not.
        principal: who it is.
        peer: the address at which it has logged in.
        api_key: for audits: hand-outs are a kind of Fetch.
    """

    __slots__ = ("login", "opened_s", "peer", "principal")
    api_key = ApiKeys.FETCH

    def __init__(self, opened_s: float = 0.0) -> None:
        self.opened_s = opened_s
        self.login: Login | None = None
        self.principal = ""
        self.peer = ""

    def log_in(self, login: Login) -> None:
        """Takes over the principal and the end of a token."""
        self.login, self.principal, self.peer = login, login.principal, login.peer


class Access(Protocol):
    """The access control, as engine.security.authorizer."""

    def allows(
        self, request: LocalClient, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        """Returns whether a client may do something."""


class LocalRequests:
    """Answers local readers on the control loop.

    With access control, a connection begins with a token (`LocalTokens`). Its principal must be able to READ
    a topic, which is decided for each request, again after it has waited, and once more before files are
    handed out. After `Login.until_s` the connection ends.

    Args:
        access: decides; None: every client may read every topic.
        tokens: what clients log in with; None without `access`.

    Attributes:
        waiters: readers that wait for records.
        answered: SEGMENTS requests answered since start.
    """

    def __init__(
        self,
        hello: Hello,
        metadata: "Metadata",
        led_logs: "LedLogs",
        waiters: LogWaiters,
        *,
        access: Access | None = None,
        tokens: LocalTokens | None = None,
    ) -> None:
        self._hello = hello
        self._access = access
        self._tokens = tokens
        self._logged_in: Counter[str] = Counter()
        self._metadata = metadata
        self._led_logs = led_logs
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self.waiters = waiters
        self.answered = 0

    async def answer(self, connection: socket.socket, client: LocalClient, body: bytes) -> Answer:
        """Returns the answer to one request.

        Raises:
            LocalFrameError: The bytes are not a request.
        """
        header, request = decode_request(body)
        number = header.correlation_id
        try:
            if request is None:
                raise KafkaError(Errors.UNSUPPORTED_VERSION)
            if isinstance(request, HelloRequest):
                self._log_in(client, request.token)
                return Answer(encode_hello(number, self._hello))
            found = await self._segments(connection, client, request)
        except (KafkaError, LogError) as error:
            is_last = error.code == Errors.SASL_AUTHENTICATION_FAILED.code
            return Answer(encode_error(number, error.code, str(error)), is_last=is_last)
        except Exception:
            event_log.error("bug: a request of a local reader failed; report the traceback", traceback=True)
            return Answer(encode_error(number, Errors.UNKNOWN_SERVER_ERROR.code, "see the broker's log"))
        self.answered += 1
        descriptors = tuple(each.fd for each in found.segments)
        answer = Answer(encode_segments(number, found), descriptors)
        if not request.descriptors:
            answer.close()
            return answer._replace(descriptors=())
        return answer

    # ------------------------------------------------------------ access

    def client(self) -> LocalClient:
        """Returns what a new connection belongs to."""
        return LocalClient() if self._tokens is None else LocalClient(self._tokens.clock())

    def left_s(self, client: LocalClient) -> float | None:
        """Returns how long a connection may wait for its next request; None: for ever. Requests without a
        login do not prolong it: strangers could hold all connections.
        """
        if self._tokens is None:
            return None
        until_s = client.opened_s + LOGIN_S if client.login is None else client.login.until_s
        return max(0.0, until_s - self._tokens.clock())

    def send_s(self, client: LocalClient) -> float | None:
        """Returns how long a connection may take to receive an answer; None: for ever."""
        left_s = self.left_s(client)
        return None if left_s is None else max(left_s, LOGIN_S)

    def ended(self, client: LocalClient) -> None:
        """Notes that a connection has ended."""
        if client.login is not None:
            self._logged_in[client.principal] -= 1
            if not self._logged_in[client.principal]:
                del self._logged_in[client.principal]

    def _log_in(self, client: LocalClient, token: str) -> None:
        if self._tokens is None:
            return
        login = self._tokens.take(token)
        if login is None or client.login is not None:
            raise KafkaError(
                Errors.SASL_AUTHENTICATION_FAILED,
                "the token is unknown, used or too old; get another one from the broker over TCP",
            )
        if self._logged_in[login.principal] >= CONNECTIONS_OF_PRINCIPAL_MAX:
            raise KafkaError(
                Errors.SASL_AUTHENTICATION_FAILED, "too many local connections have the same principal"
            )
        self._logged_in[login.principal] += 1
        client.log_in(login)

    def _authorize(self, client: LocalClient, topic: str) -> None:
        """Checks that a client has READ on a topic, as Fetch does, whether the topic exists or not."""
        if self._access is None or self._tokens is None:
            return
        if client.login is None or client.login.until_s <= self._tokens.clock():
            raise KafkaError(
                Errors.SASL_AUTHENTICATION_FAILED, "log in with a token that the broker gives over TCP"
            )
        if not self._access.allows(client, AclOperation.READ, AclResourceType.TOPIC, topic):
            raise KafkaError(Errors.TOPIC_AUTHORIZATION_FAILED)

    # ------------------------------------------------------------ segments

    def _log(self, request: SegmentsRequest, client: LocalClient) -> tuple[TopicImage, PartitionLog]:
        self._authorize(client, request.topic)
        topic = self._metadata.image.topics.get(request.topic)
        if topic is None:
            raise KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        if request.topic_id not in (ANY_TOPIC_ID, topic.id):
            raise KafkaError(Errors.UNKNOWN_TOPIC_ID)
        log = self._led_logs.of(request.topic, request.partition, request.current_leader_epoch)
        return topic, log

    async def _segments(
        self, connection: socket.socket, client: LocalClient, request: SegmentsRequest
    ) -> Segments:
        if request.isolation not in _ISOLATIONS or not 0 < request.max_segments <= SEGMENTS_MAX:
            raise KafkaError(
                Errors.INVALID_REQUEST, f"max segments must be 1 to {SEGMENTS_MAX}, isolation 0 or 1"
            )
        found = await self._look(request, client)
        wait_s = min(request.max_wait_ms, WAIT_MS_MAX) / 1000
        deadline = time.monotonic() + wait_s
        while not found.segments and found.next_offset >= 0 and wait_s > 0:
            # The waiter is registered before the log is read again, so no wake-up is lost.
            number, woken = self._add_waiter(request)
            try:
                found = await self._look(request, client)
                if not found.segments:
                    interrupted = await self._wait(connection, woken, wait_s)
                    found = await self._look(request, client)
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

    async def _look(self, request: SegmentsRequest, client: LocalClient) -> Segments:
        topic, log = self._log(request, client)
        work = partial(look_at, log, request)
        job = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            found = await asyncio.shield(job)
        except asyncio.CancelledError:
            job.add_done_callback(_close_unwanted)
            raise
        try:
            self._authorize(client, request.topic)  # the disk may have taken long
        except KafkaError:
            close_segments(found)
            raise
        found.topic_id = topic.id
        found.leader_epoch = topic.partitions[request.partition].leader_epoch
        return found

    # ------------------------------------------------------------ waiting

    async def _wait(self, connection: socket.socket, woken: "asyncio.Future[bool]", wait_s: float) -> bool:
        """Waits until the log has moved or time is over. Returns True if the reader has closed or sent
        something.
        """
        loop = asyncio.get_running_loop()
        timer = loop.call_later(wait_s, _resolve, woken, False)
        loop.add_reader(connection.fileno(), _resolve, woken, True)
        try:
            return await woken
        finally:
            loop.remove_reader(connection.fileno())
            timer.cancel()

    def wake(self) -> None:
        """Wakes the readers whose logs have moved."""
        for number in self.waiters.take():
            if (woken := self._waiting.get(number)) is not None:
                _resolve(woken, False)


def _resolve(future: "asyncio.Future[bool]", value: bool) -> None:
    if not future.done():
        future.set_result(value)


def look_at(log: PartitionLog, request: SegmentsRequest, aborted_max: int = ABORTED_MAX) -> Segments:
    """Reads the log's segments. On an executor thread, because it may wait for the disk.

    The caller closes them. An answer has at most `aborted_max` aborted transactions, unless more touch
    its first batch.
    """
    answer = _share(log, request)
    if request.isolation != _READ_COMMITTED or not answer.segments:
        return answer
    try:
        offset, end, most = request.fetch_offset, _end_of(answer), aborted_max
        aborted, told_below = log.aborted_below(offset, end, most)
        while told_below < end:
            shorter = _share(log, request, told_below)
            if shorter.segments:
                close_segments(answer)
                answer = shorter
                break
            most *= 2  # all transactions found touch the first batch
            aborted, told_below = log.aborted_below(offset, end, most)
    except BaseException:
        close_segments(answer)
        raise
    answer.aborted = sorted(aborted, key=lambda each: each[1])
    return answer


def _share(log: PartitionLog, request: SegmentsRequest, below_offset: int = _NO_LIMIT) -> Segments:
    start, high, stable, history, next_offset, found = shared_segments(
        log,
        request.fetch_offset,
        read_committed=request.isolation == _READ_COMMITTED,
        max_segments=request.max_segments,
        below_offset=below_offset,
    )
    segments = [Segment(*each) for each in found]
    return Segments(ANY_TOPIC_ID, -1, start, high, stable, next_offset, history, segments)


def _end_of(answer: Segments) -> int:
    return answer.segments[-1].end_offset if answer.next_offset < 0 else answer.next_offset


def close_segments(answer: Segments) -> None:
    """Closes the descriptors of an answer."""
    for each in answer.segments:
        os.close(each.fd)


def _close_unwanted(job: "asyncio.Future[Segments]") -> None:
    if not job.cancelled() and job.exception() is None:
        close_segments(job.result())
