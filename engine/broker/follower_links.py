"""Connects followers to leaders whose listeners have TLS or SASL.

The data plane has a list of connections that it needs. The control loop connects and logs in as for its own
requests, and gives socket and TLS session to the reactor of the fetcher, also to replace one whose login is
about to end (KIP-368): the fetcher goes on meanwhile with the one that it has.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from bowstring._native.server.replicas import Replicas
from bowstring.engine import background
from bowstring.engine.metadata.image import ImageSource

if TYPE_CHECKING:
    from bowstring.engine.network.peer_security import PeerSecurity
    from bowstring.engine.network.secure_link import SecureLink

Dial = tuple[int, int, int, int]
_CLIENT_ID: Final = "replica"


class FollowerLinks:
    """Makes the connections. Used on the control loop.

    Args:
        replicas: Needs them.
        metadata: Has the leaders' addresses.
        security: How to connect.
        timeout_s: For one connection.
    """

    def __init__(
        self, replicas: Replicas, metadata: ImageSource, security: "PeerSecurity", timeout_s: float
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._security = security
        self._timeout_s = timeout_s
        self._making: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """Begins to make what is needed. Call when the data plane's control_fd is readable."""
        for dial in self._replicas.take_dials():
            background.spawn(self._make(dial), "connection to a leader", among=self._making)

    async def stop(self) -> None:
        """Makes no more."""
        for task in self._making:
            task.cancel()
        if self._making:
            await asyncio.wait(self._making)

    async def _make(self, dial: Dial) -> None:
        leader = self._metadata.image.brokers.get(dial[0])
        endpoint = leader.endpoint(self._security.listener) if leader is not None else None
        if endpoint is None:
            self._replicas.refuse_dial(dial, f"it has no listener {self._security.listener}")
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                link = await self._security.connect(endpoint.host, endpoint.port, _CLIENT_ID)
        except TimeoutError:
            self._replicas.refuse_dial(dial, f"it did not answer for {self._timeout_s:g} s")
        except OSError as error:
            self._replicas.refuse_dial(dial, error.strerror or str(error))
        except Exception:
            self._replicas.refuse_dial(dial, "bug: the connection failed; report the traceback")
            raise
        else:
            self._give(dial, link)

    def _give(self, dial: Dial, link: "SecureLink") -> None:
        if link.has_more:
            link.close()
            self._replicas.refuse_dial(dial, "it sent more than the answers")
            return
        fd, stream, renew_after_s = link.detach()
        self._replicas.give_link(dial, fd, stream, renew_after_ms=round(renew_after_s * 1000))
