"""Makes the application: finds the operation of each request and who sent it, and makes answers of errors."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from bowstring.clients.errors import AuthenticationError, ClientError
from bowstring.rest.answer import Answer, Answering, BrokenStreamError, Receive, Scope, Send, failure
from bowstring.rest.call import Call
from bowstring.rest.callers import Caller, Callers
from bowstring.rest.client_failure import http_error
from bowstring.rest.operation import Operation
from bowstring.rest.options import RestOptions
from bowstring.rest.router import Router
from bowstring.web.credentials import LogIns, client_settings, credentials_of, has_sasl, unauthorized
from bowstring.web.http_error import HttpError
from bowstring.web.http_metrics import HttpMetrics
from bowstring.web.limits import DisconnectedError, RateLimit, header
from bowstring.web.observed import ROUTE, USER

_log = logging.getLogger("bowstring.rest")

# Each has `operations`.
MODULES = (
    "v3.clusters",
    "v3.topics",
    "v3.partitions",
    "v3.reassignments",
    "v3.configs",
    "v3.groups",
    "v3.acls",
    "v3.records",
    "v2.metadata",
    "v2.produce",
    "v2.consumers",
)
IDLE_LOOK_S = 30.0


def operations() -> list[Operation]:
    """Returns all operations."""
    found: list[Operation] = []
    for name in MODULES:
        found += import_module(f"bowstring.rest.{name}").operations
    return found


class RestApp:
    """The proxy as an ASGI application. Belongs to one event loop.

    Args:
        options: of the proxy.
        rate: bounds the requests of each caller; None for no bound.
    """

    def __init__(self, options: RestOptions, rate: RateLimit | None = None):
        self._security: Mapping[str, Any] = options.security or {}
        self._rate = rate or RateLimit(0)
        self.callers = Callers(options)
        self.metrics = HttpMetrics(
            "bowstring_rest",
            {
                "streams": ("Streams of records that are open.", lambda: float(self.callers.streams)),
                "consumers": ("Consumer instances of v2.", lambda: float(self.callers.consumers)),
            },
        )
        self._log_ins = LogIns(options.bootstrap_servers, self._security)
        self._operations = operations()
        self._router = Router(self._operations)
        self._document: bytes | None = None
        self._plain: dict[str, Callable[[Scope], Answer]] = {
            "/health": lambda _: Answer(200, b'{"status":"ok"}'),
            "/metrics": self._metrics,
            "/openapi.json": self._openapi,
            "/v3/openapi.json": self._openapi,
        }

    async def _live(self, receive: Receive, send: Send) -> None:
        """Answers lifespan events: closes clients of silent callers, and in the end all."""
        await receive()
        tending = asyncio.create_task(self._tend())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        tending.cancel()
        self._log_ins.close()
        await self.callers.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(IDLE_LOOK_S)
            self.callers.end_idle()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"this application serves HTTP, not {scope['type']}")
        try:
            answering = await self._answer(scope, receive)
        except HttpError as error:
            answering = failure(error)
        except DisconnectedError:
            return
        except ClientError as error:
            answering = failure(http_error(error))
        except Exception as error:
            _log.exception("%s %s failed", scope["method"], scope.get(ROUTE, "an unknown path"))
            answering = failure(http_error(error))
        try:
            await answering(scope, receive, send)
        except BrokenStreamError:
            raise  # is logged; the server cuts the connection
        except Exception:
            _log.exception("%s %s broke off", scope["method"], scope.get(ROUTE, "an unknown path"))
            raise

    async def _answer(self, scope: Scope, receive: Receive) -> Answering:
        raw: str = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
        plain = self._plain.get(raw)
        if plain is not None and scope["method"] in ("GET", "HEAD"):
            scope[ROUTE] = raw
            return plain(scope)
        operation, path = self._router.find(scope["method"], raw)
        scope[ROUTE] = operation.path
        caller, fingerprint = await self._caller(scope)
        self._rate.take(fingerprint or (scope.get("client") or ("",))[0])
        call = Call(scope, receive, path, caller, self.callers)
        try:
            return await operation.handler(call)
        except AuthenticationError:
            self.callers.forget(fingerprint)
            raise

    async def _caller(self, scope: Scope) -> tuple[Caller, str]:
        """Returns who sent a request, and a fingerprint of the credentials.

        Raises:
            HttpError: 401, it has no credentials and the cluster needs some, or the cluster refuses them.
        """
        credentials = credentials_of(scope)
        if not has_sasl(self._security):
            # Nobody can log in by user and password: everybody is whom the proxy's own settings make.
            return self.callers.find("", None, self._security), ""
        if credentials is None:
            raise unauthorized("the cluster needs a log-in: send a user and password, or a token")
        settings = client_settings(self._security, credentials)
        client = scope.get("client")
        user = await self._log_ins.user(credentials, client[0] if client else "")
        scope[USER] = user
        text = f"{credentials.scheme}\0{credentials.user}\0{credentials.secret}"
        fingerprint = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return self.callers.find(fingerprint, user, settings), fingerprint

    def _metrics(self, scope: Scope) -> Answer:
        accept = (header(scope["headers"], b"accept") or b"").decode("latin-1")
        body, kind = self.metrics.text(accept)
        return Answer(200, body, ((b"content-type", kind.encode()),))

    def _openapi(self, scope: Scope) -> Answer:
        if self._document is None:
            from bowstring.rest.openapi import document

            self._document = document(self._operations)
        return Answer(200, self._document)
