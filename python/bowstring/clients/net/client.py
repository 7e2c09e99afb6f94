"""Sends requests and receives replies over the connections to one cluster, many in flight on each.

There are up to three connections to a broker, one for each purpose (purposes.py): no request waits behind
a long poll.

`NetworkClient` belongs to one thread at a time. Its owner sends, then polls until the expected reply is
there. Replies complete `Pending` objects inside `poll`.
"""

from __future__ import annotations

import errno
import functools
import select
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bowstring._native.client.socket_io import Poller
from bowstring.clients import forks
from bowstring.clients.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    ClientError,
    ClosedError,
    ConfigError,
    ConnectionLostError,
    ForkedError,
    MisroutedError,
    RequestTimedOutError,
    TlsError,
)
from bowstring.clients.net import frames
from bowstring.clients.net.connection import CLOSED, CONNECTING, Api, Body, Connection, Pending
from bowstring.clients.net.purposes import Purpose, purpose_of
from bowstring.clients.records import Node
from bowstring.clients.troubles import Troubles, broker_name

if TYPE_CHECKING:
    from bowstring.security.client_settings import ClientSecurity

ALARM_MAX_S = 3600.0
# Brokers close connections that are idle for minutes (connections.max.idle.ms).
IDLE_CHECK_S = 10.0
# Between polls for an answer whose time is over.
LATE_MIN_S = 0.001
LATE_MAX_S = 0.1
CLIENT_ID_BYTES_MAX = 32767  # its length is an int16


class NetworkClient:
    """Connections to the brokers of one cluster.

    Args:
        client_id: name sent with every request; brokers use it for logs and quotas.
        connect_timeout_ms: limit for connecting and getting the broker's versions, together with
            request_timeout_ms.
        request_timeout_ms: an unanswered request fails after this, and its connection is closed.
        reconnect_backoff_ms, reconnect_backoff_max_ms: pause before reconnecting to a broker that refused.
        troubles: called when brokers cannot be reached or disconnect, and when they answer again.
        transactional: uses only versions that fit the brokers' transaction.version (KIP-890).
        security: TLS and SASL; None for plain text.

    Attributes:
        losses: connections that broke, could not be opened, or log in again.
        meant: returns which broker a connection to a node is to reach; None where that is not checked.
        misrouted: is called when a connection has reached another one, before all connections are closed.

    Raises:
        ConfigError: client_id is longer than the protocol allows.
    """

    def __init__(
        self,
        client_id: str,
        *,
        connect_timeout_ms: int = 10_000,
        request_timeout_ms: int = 30_000,
        reconnect_backoff_ms: int = 50,
        reconnect_backoff_max_ms: int = 1_000,
        troubles: Troubles | None = None,
        transactional: bool = False,
        security: ClientSecurity | None = None,
    ):
        if len(client_id.encode()) > CLIENT_ID_BYTES_MAX:
            raise ConfigError(
                f"client_id has {len(client_id.encode())} bytes, at most {CLIENT_ID_BYTES_MAX} are allowed"
            )
        self.client_id = client_id
        self.security = security
        self._transactional = transactional
        self._transaction_version = 0
        self.troubles = troubles or Troubles()
        self.request_timeout_s = request_timeout_ms / 1000
        self._connect_timeout_s = min(connect_timeout_ms, request_timeout_ms) / 1000
        self._backoff_s = reconnect_backoff_ms / 1000
        self._backoff_max_s = reconnect_backoff_max_ms / 1000
        self._epoll = select.epoll()
        self.poller = Poller(self._epoll.fileno())
        self._watched: dict[int, Connection] = {}  # by descriptor
        self._connections: dict[tuple[str, int, Purpose], Connection] = {}
        self._interest: dict[Connection, int] = {}
        self._failures: dict[tuple[str, int], tuple[int, float, ClientError]] = {}
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._epoll.register(self._wake_reader, select.EPOLLIN)
        self.meant: Callable[[Node], frames.Meant | None] = lambda node: None
        self.misrouted: Callable[[], None] = lambda: None
        # Whether the broker that answered last can check the meant broker.
        self._names_checked = True
        self._closed = False
        self._forked: ForkedError | None = None
        self.losses = 0
        self.early: list[Callable[[], None]] = []  # callbacks of requests that failed before they were sent
        forks.watch(self)

    # ------------------------------------------------------------ requests

    def send(
        self,
        node: Node,
        api: Api,
        body: Body,
        *,
        timeout_s: float | None = None,
        callback: Callable[[Pending], None] | None = None,
        expects_reply: bool = True,
        purpose: Purpose | None = None,
    ) -> Pending:
        """Sends a request as soon as its connection allows; never blocks, and never raises because of the
        network.

        Args:
            node, api, body: where to send what.
            timeout_s: seconds until the request fails; None for request_timeout_ms.
            callback: called in `poll` with the outcome.
            expects_reply: whether the broker answers; otherwise the request is done when it is written.
            purpose: the connection; None for the one that requests of this API take.
        """
        if self._closed:
            raise self._forked or ClosedError("this client is closed")
        pending = Pending(
            node,
            api,
            body,
            timeout_s or self.request_timeout_s,
            expects_reply=expects_reply,
        )
        try:
            connection = self._connection(node, purpose or purpose_of(api))
        except ClientError as error:  # unreachable now or recently
            pending.complete(None, error)
        else:
            self.poller.alarm = min(self.poller.alarm, pending.deadline)
            self._guarded(connection, connection.send, pending)
        if not pending.done:
            pending.callback = callback
        elif callback is not None:
            # Run the callback inside `poll`, as always: the caller may not have stored the Pending yet.
            self.early.append(functools.partial(callback, pending))
        return pending

    def poll(self, timeout_s: float) -> None:
        """Sends and receives until something happened or time is over; completes answered requests."""
        if self._closed:
            raise self._forked or ClosedError("this client is closed")
        self.serve(self.poller.wait(0.0 if self.early else timeout_s))

    def serve(self, found: list[tuple[int, int]]) -> None:
        """Sends and receives what is possible; completes answered and expired requests.

        Args:
            found: descriptors and their events, as returned by `poller`.
        """
        # Look up all connections first: serving one may close it and open another with the same descriptor
        # number.
        for connection, descriptor, events in [(self._watched.get(one), one, what) for one, what in found]:
            if connection is not None:
                self._serve(connection, events)
            elif descriptor == self.wake_reader:
                self._drain_wakeups()
        self._expire()
        early, self.early = self.early, []
        for callback in early:
            callback()

    def wait(self, pending: Pending, timeout_s: float | None = None) -> Any:
        """Polls until `pending` is done; returns its response or raises its error."""
        deadline = pending.deadline if timeout_s is None else time.monotonic() + timeout_s
        late_s = LATE_MIN_S
        while not pending.done:
            left = deadline - time.monotonic()
            if left <= 0 and timeout_s is not None:
                raise RequestTimedOutError(frames.api_name(pending.api), pending.node, timeout_s)
            self.poll(max(left, late_s))
            if left <= 0:  # a broker that throttles may answer much later
                late_s = min(late_s * 2, LATE_MAX_S)
        return pending.result()

    def wakeup(self) -> None:
        """Makes a poll in another thread return. The only method that other threads may call."""
        try:
            self._wake_writer.send(b"\0")
        except OSError:
            return  # the pipe is full, so a wake-up is already pending; or the client is closed

    @property
    def wake_descriptor(self) -> int:
        """Writing a byte to this descriptor does the same as `wakeup`, until the client is closed."""
        return self._wake_writer.fileno()

    @property
    def wake_reader(self) -> int:
        """The descriptor that then becomes readable."""
        return self._wake_reader.fileno()

    def cork(self) -> None:
        """Collects requests until `uncork`, which writes them with as few system calls as possible."""
        for connection in self._connections.values():
            connection.corked = True

    def uncork(self) -> None:
        """Writes the requests collected since `cork`."""
        for connection in list(self._connections.values()):
            if connection.corked:
                connection.corked = False
                if connection.wants_write and connection.is_open:
                    self._guarded(connection, connection.flush)

    def flush_left(self) -> None:
        """Writes what another thread could not write because a socket was full."""
        for connection in list(self._connections.values()):
            if connection.is_open and connection.wants_write:
                self._guarded(connection, connection.flush)

    def ready_connection(self, node: Node) -> Connection | None:
        """Returns the general connection to `node` if it can send requests at once."""
        connection = self._connections.get((node.host, node.port, Purpose.GENERAL))
        return connection if connection is not None and connection.ready else None

    def ready(self, node: Node) -> bool:
        """Whether the general connection to `node` can send requests at once."""
        return self.ready_connection(node) is not None

    def in_flight(self, node: Node) -> int:
        """Number of requests that are sent or waiting on the general connection to `node`."""
        connection = self._connections.get((node.host, node.port, Purpose.GENERAL))
        if connection is None:
            return 0
        return len(connection.in_flight) + len(connection.unanswered) + len(connection.waiting)

    def hang_up(self, node: Node, purpose: Purpose) -> None:
        """Closes one connection to `node`: its requests fail, but it is no failure of the broker."""
        connection = self._connections.pop((node.host, node.port, purpose), None)
        if connection is not None:
            self._unwatch(connection)
            connection.close(ConnectionLostError(node, "this client closed the connection"))

    def versions(self, node: Node) -> dict[int, tuple[int, int]]:
        """Returns the API versions of `node`, empty before a connection is ready."""
        found = (self._connections.get((node.host, node.port, purpose)) for purpose in Purpose)
        return next((each.versions for each in found if each is not None and each.ready), {})

    def transaction_version(self) -> int:
        """Returns the lowest transaction.version of connected brokers; without any the last known."""
        ready = [each for each in list(self._connections.values()) if each.ready]
        if ready:
            self._transaction_version = min(
                each.features.get(frames.TRANSACTION_FEATURE, 0) for each in ready
            )
        return self._transaction_version

    def backing_off(self, node: Node) -> bool:
        """Whether the broker refused recently and is in its backoff pause."""
        failure = self._failures.get((node.host, node.port))
        return failure is not None and time.monotonic() < failure[1]

    def last_failure(self, node: Node) -> ClientError | None:
        """Returns why the last connection to `node` failed, None when it did not."""
        failure = self._failures.get((node.host, node.port))
        return failure[2] if failure else None

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more requests."""
        return self._closed

    def after_fork(self, error: ForkedError) -> None:
        """Closes only this process's copies of the descriptors in a forked child: the connections belong to
        the parent.
        """
        self._forked = error
        self._closed = True
        for connection in self._connections.values():
            if connection.socket is not None:
                connection.socket.close()
        self._epoll.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def close(self) -> None:
        """Closes every connection; requests in flight fail."""
        if self._closed:
            return
        self._closed = True
        for connection in list(self._connections.values()):
            self._drop(connection, ClientError("the client was closed with requests in flight"))
        self._epoll.close()
        self._wake_reader.close()
        self._wake_writer.close()

    # ------------------------------------------------------------ connections

    def _connection(self, node: Node, purpose: Purpose) -> Connection:
        address = (node.host, node.port)
        connection = self._connections.get((*address, purpose))
        if connection is not None and connection.is_idle(IDLE_CHECK_S):
            self._guarded(connection, self._receive, connection)  # the broker may have closed it meanwhile
            connection = self._connections.get((*address, purpose))
        due = connection.renew_at if connection is not None else None
        if connection is not None and due is not None and time.monotonic() >= due:
            self._renew(connection)  # which may close it
            connection = self._connections.get((*address, purpose))
        if connection is not None:
            return connection
        failure = self._failures.get(address)
        if failure is not None and time.monotonic() < failure[1]:
            raise failure[2]
        connection = Connection(
            node,
            self.client_id,
            self._connect_timeout_s,
            purpose=purpose,
            transactional=self._transactional,
            meant=self.meant(node) if self._names_checked else None,
            security=self.security,
        )
        try:
            connection.connect()
        except BrokerUnreachableError as error:
            self._note_failure(address, error)
            raise
        self._connections[*address, purpose] = connection
        self.poller.alarm = min(self.poller.alarm, connection.deadline)
        self.watch(connection)
        return connection

    def _note_failure(self, address: tuple[str, int], error: ClientError) -> None:
        now, known = time.monotonic(), self._failures.get(address)
        if known is not None and now < known[1]:
            return  # another connection to the same broker has failed a moment ago
        count = known[0] + 1 if known is not None else 1
        pause_s = min(self._backoff_max_s, self._backoff_s * 2 ** min(count - 1, 10))
        if isinstance(error, AuthenticationError):
            pause_s = self._backoff_max_s
        self._failures[address] = (count, now + pause_s, error)
        if not self._closed:
            self.troubles.note(broker_name(*address), error)

    def watch(self, connection: Connection) -> None:
        """Watches a connection for answers, and for room while there is something to write."""
        assert connection.socket is not None
        interest = select.EPOLLIN | (select.EPOLLOUT if connection.wants_write else 0)
        known = self._interest.get(connection)
        if known == interest:
            return
        descriptor = connection.socket.fileno()
        if known is None:
            self._epoll.register(descriptor, interest)
            self._watched[descriptor] = connection
        else:
            self._epoll.modify(descriptor, interest)
        self._interest[connection] = interest

    def _unwatch(self, connection: Connection) -> None:
        if self._interest.pop(connection, None) is not None and connection.socket is not None:
            descriptor = connection.socket.fileno()
            self._epoll.unregister(descriptor)
            del self._watched[descriptor]

    def _serve(self, connection: Connection, events: int) -> None:
        if connection.state == CLOSED:
            return  # an earlier event of the same poll closed it
        if connection.state == CONNECTING:
            self._guarded(connection, self._finish_connect, connection)
            return
        # Any read or write detects an error or the end of the connection.
        if events & ~select.EPOLLIN:
            self._guarded(connection, connection.flush)
        if events & ~select.EPOLLOUT and connection.state != CLOSED:
            self._guarded(connection, self._receive, connection)

    def _finish_connect(self, connection: Connection) -> None:
        self._unwatch(connection)
        connection.finish_connect()

    def _receive(self, connection: Connection) -> None:
        negotiating = not connection.ready
        try:
            connection.receive()
        finally:
            # Complete answers count even if the connection breaks after them.
            while connection.replies:
                connection.finish()
        if connection.ready and negotiating:
            self.poller.alarm = 0.0  # requests that waited now have their own deadlines
            _, newest = connection.versions.get(frames.API_VERSIONS_KEY, (0, 0))
            self._names_checked = newest >= frames.API_VERSIONS_NAMING
            address = (connection.node.host, connection.node.port)
            self._failures.pop(address, None)
            self.troubles.over(broker_name(*address))

    def _guarded(self, connection: Connection, action: Callable[..., None], *args: Any) -> None:
        """Runs `action`; if it fails, drops only this connection and fails its requests."""
        try:
            action(*args)
        except (OSError, EOFError) as error:
            self.lost(connection, error)
        except MisroutedError as error:
            self.misrouted()
            self._drop(connection, error)
            self._hang_up_all(error)
        except ClientError as error:
            self._drop(connection, error)
        else:
            if connection.state != CLOSED and not connection.corked:
                self.watch(connection)

    def _hang_up_all(self, error: ClientError) -> None:
        """Closes every connection: one of them was opened by metadata that is wrong."""
        while self._connections:
            _, connection = self._connections.popitem()
            self._unwatch(connection)
            connection.close(error)

    def _renew(self, connection: Connection) -> None:
        """Logs a connection in again; whoever writes to it natively must let go of it."""
        self.losses += 1
        self._guarded(connection, connection.renew)
        self.poller.alarm = min(self.poller.alarm, connection.deadline)

    def lost(self, connection: Connection, error: OSError | EOFError) -> None:
        """Fails the requests of a connection that the system reports as gone."""
        if isinstance(error, OSError) and error.errno == errno.EPROTO and not connection.is_open:
            told = f"cannot connect to {connection.node.host}:{connection.node.port}: {error.strerror}"
            self._drop(connection, TlsError(connection.node, f"{told}. {connection.advice}"))
            return
        reason = (
            ("the broker closed the connection")
            if isinstance(error, EOFError)
            else error.strerror or str(error)
        )
        if connection.advice and (isinstance(error, EOFError) or error.errno == errno.ECONNRESET):
            reason = f"{reason}. {connection.advice}"
        kind = ConnectionLostError if connection.is_open else BrokerUnreachableError
        self._drop(connection, kind(connection.node, reason))

    def _drop(self, connection: Connection, error: ClientError) -> None:
        self.losses += 1
        address = (connection.node.host, connection.node.port)
        self._unwatch(connection)
        if self._connections.get((*address, connection.purpose)) is connection:
            del self._connections[*address, connection.purpose]
        # Brokers close idle connections; that is not an error, and others to the same broker may be in use.
        if not connection.is_idle(0.0):
            self._note_failure(address, error)
        connection.close(error)

    def _drain_wakeups(self) -> None:
        try:
            while len(self._wake_reader.recv(4096)) == 4096:
                pass
        except BlockingIOError:
            return

    # ------------------------------------------------------------ time

    def _expire(self) -> None:
        """Drops connections that have timed out; checks requests in flight only when one may have."""
        now = time.monotonic()
        if now < self.poller.alarm:
            return
        for connection in list(self._connections.values()):
            if not connection.is_open:
                if now >= connection.deadline:
                    reason = f"no answer within {self._connect_timeout_s:g} s"
                    reason += f". {connection.advice}" if connection.advice else ""
                    self._drop(connection, BrokerUnreachableError(connection.node, reason))
                else:
                    connection.expire_waiting(now)
            else:
                sent = (*connection.in_flight, *connection.unanswered)
                late = next((p for p in sent if now >= connection.expires_at(p)), None)
                if late is not None:
                    self._drop(
                        connection, RequestTimedOutError(frames.api_name(late.api), late.node, late.timeout_s)
                    )
                elif connection.renew_at is not None and now >= connection.renew_at:
                    self._renew(connection)
                else:
                    connection.expire_waiting(now)
        self.poller.alarm = now + ALARM_MAX_S
        for connection in self._connections.values():
            deadlines = [connection.expires_at(p) for p in (*connection.in_flight, *connection.unanswered)]
            if not connection.is_open:
                deadlines = [connection.deadline]
            deadlines += [p.deadline for p in connection.waiting]
            if connection.renew_at is not None:
                deadlines.append(connection.renew_at)
            self.poller.alarm = min([self.poller.alarm, *deadlines])
