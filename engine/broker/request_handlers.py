"""Answers requests with the modules of their APIs: those of a data plane (dispatcher.py), and those of this
process itself. Counts them.
"""

import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bowstring._native.server.control_request import ControlRequest
from bowstring.engine import event_log
from bowstring.engine.api.permissions import Requirement
from bowstring.engine.api.request_refusals import refusal
from bowstring.engine.api.table import TABLE, Served
from bowstring.engine.broker.request_counters import RequestCounters
from bowstring.engine.coordinators.repeatable import Repeatable
from bowstring.engine.requests.answers import error_response
from bowstring.engine.requests.binding import Handler, bound
from bowstring.engine.requests.listeners import WITHIN, Listener
from bowstring.engine.requests.request import Request
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.engine.security.authorizer import Authorizer
from bowstring.engine.security.principals import OWN_NODE
from bowstring.protocol import API_VERSIONS, ProtocolError
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.schema import Request as AnyRequest
from bowstring.protocol.schema import Response

if TYPE_CHECKING:
    from bowstring.engine.coordinators.effects import Token

AtOnce = Callable[[Any, ControlRequest, Listener], Response | Repeatable | None]
"""Answers a decoded request that came through a listener; None: it has to wait, or there is an error."""

Encode = Callable[[ControlRequest], bytes | None]
"""Answers a request in bytes; None: it has to wait, or there is an error."""

Begin = Callable[[Any, ControlRequest, "Token"], bool]
"""Takes a decoded request, and answers it through the token; False: it has to be handled by itself."""

Gather = Callable[[ControlRequest, Callable[[bytes], None]], bool]
"""Takes a request, whose answer it passes on later; False: it has to be handled by itself."""


class RequestHandlers:
    """The handlers of the APIs of one kind of listener. What a request needs as a whole is checked first.

    Args:
        served: The module that answers, and what is needed, by API key.
        part: Returns the part of the node that a handler states by a name. It is called with the first
            request of an API, on the control loop.
        authorizer: Decides who may do what.
        time_slices: Shares the control thread among long requests.

    Attributes:
        counters: What was answered, by API key.
    """

    def __init__(
        self,
        served: Served,
        part: Callable[[str], Any],
        *,
        authorizer: Authorizer,
        time_slices: TimeSlices,
    ) -> None:
        self.counters: dict[int, RequestCounters] = {}
        self._served = served
        self._modules = served.handlers
        self._part = part
        self._authorizer = authorizer
        self._time_slices = time_slices
        self._handlers: dict[int, Handler] = {}
        self._at_once: dict[int, AtOnce | None] = {}
        self._encodes: dict[int, Encode] = {}
        self._begins: dict[int, Begin] = {}
        # with what writes those that were taken, at the end of the pass
        self._gathers: dict[int, tuple[Gather, Callable[[], None]]] = {}
        self._needs: dict[int, tuple[Requirement, ...]] = {}

    def handler(self, key: int) -> Handler:
        """Returns the handler of an API with its parts; imports its module on first use."""
        handler = self._handlers.get(key)
        if handler is None:
            module = import_module(f"bowstring.engine.api.{self._modules[key]}")
            self._at_once[key] = bound(module.at_once, self._part) if TABLE[key].at_once else None
            if TABLE[key].encodes:
                self._encodes[key] = bound(module.encoded, self._part)
            if TABLE[key].begins:
                self._begins[key] = bound(module.begin, self._part)
            if TABLE[key].gathers:
                self._gathers[key] = bound(module.gather, self._part), bound(module.write, self._part)
            handler = self._handlers[key] = self._checking(key, bound(module.handle, self._part))
        return handler

    def _checking(self, key: int, handler: Handler) -> Handler:
        """Returns the handler behind the check of what its requests need; without an authorizer itself."""
        if not self._authorizer.is_on:
            return handler
        from bowstring.engine.api.request_permissions import Checked, check, for_whole_request

        needs = self._needs[key] = for_whole_request(self._served.needs[key])
        if not needs:
            return handler

        async def checked(request: Request) -> Response:
            asked = Checked(self._authorizer, request, request.version, request.body)
            await check(asked, needs, self._time_slices)
            return await handler(request)

        return checked

    async def answer_within(self, body: AnyRequest, version: int) -> Response | None:
        """Answers a request of this process, which comes without a connection; None where one would be closed
        without an answer.
        """
        key = body.api_key
        self._time_slices.begin()
        request = Request(
            api_key=key,
            version=version,
            body=body,
            listener=WITHIN,
            principal=OWN_NODE,
            received_ns=time.monotonic_ns(),
        )
        failed = True
        try:
            answer = await self.handler(key)(request)
            failed = False
            return answer
        except KafkaError as error:
            return refusal(key, version, body, error)
        except ProtocolError as error:  # of an answer inside, such as one that is too large
            event_log.warning(
                "a request of this node to its own controller gets no answer; detail has the reason",
                api=API_VERSIONS[key].name,
                version=version,
                detail=str(error),
            )
            return None
        except Exception:
            return self._answer_to_bug(key, version, "this process")
        finally:
            self._count(request, failed=failed)

    def _count(self, request: Any, *, failed: bool) -> None:
        counters = self.counters.get(request.api_key)
        if counters is None:
            counters = self.counters[request.api_key] = RequestCounters()
        counters.count(time.monotonic_ns() - request.received_ns, failed=failed)

    def _answer_to_bug(self, key: int, version: int, peer: str) -> Response | None:
        event_log.error(
            "bug: a request handler failed; report the traceback",
            traceback=True,
            api=API_VERSIONS[key].name,
            version=version,
            peer=peer,
        )
        if TABLE[key].never_guessed:
            return None
        return error_response(key, version, KafkaError(Errors.UNKNOWN_SERVER_ERROR))
