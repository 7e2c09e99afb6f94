"""Opens the connections of a client that one thread at a time uses."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from bowstring.clients.net.client import NetworkClient
from bowstring.clients.single_thread import SingleThread
from bowstring.clients.troubles import OnError, Troubles

if TYPE_CHECKING:
    from bowstring.security.client_settings import ClientSecurity


class OwnedClient:
    """Mixed into Consumer and ShareConsumer, which set `_owner` first."""

    _owner: SingleThread

    def _begin(
        self,
        log: logging.Logger,
        client_id: str,
        request_timeout_ms: int,
        security: ClientSecurity | None,
        on_error: OnError | None,
    ) -> None:
        self.troubles = Troubles(log)
        self.listener = self.troubles.listen(self._owner.lending(on_error))
        self._client = NetworkClient(
            client_id, request_timeout_ms=request_timeout_ms, troubles=self.troubles, security=security
        )
