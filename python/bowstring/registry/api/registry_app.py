"""Answers requests of the registry's REST API: an ASGI application without a framework.

A framework's routing and requests would take most of the time of a lookup.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bowstring.registry.api import program_routes, schema_routes, setting_routes, subject_routes
from bowstring.registry.api.access_rules import AccessRules
from bowstring.registry.api.answer_cache import Answer, AnswerCache, make_answer
from bowstring.registry.api.call import FORBIDDEN, Call, Read, Right, Route, require_readable
from bowstring.registry.api.forwarder import (
    FORWARD,
    ForwardedRequest,
    Forwarder,
    headers_to_forward,
    unknown_leader,
)
from bowstring.registry.api.json_body import read_json, write_json
from bowstring.registry.api.media_types import JSON, V1_JSON, answer_type, check_request_type
from bowstring.registry.api.program_routes import ProgramFacts
from bowstring.registry.api.request_target import read_target
from bowstring.registry.api.route_table import RouteTable
from bowstring.registry.operations import aliases
from bowstring.registry.qualified_subject import in_context_of, normalized
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.registry_node import NotLeader, RegistryNode
from bowstring.registry.schema_work import Deferred
from bowstring.web.credentials import LogIns, certificate_of, credentials_of, unauthorized
from bowstring.web.http_error import HttpError, error_body
from bowstring.web.limits import DisconnectedError, RateLimit, read_body
from bowstring.web.observed import ROUTE, USER

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Page = Callable[[bytes], tuple[int, bytes, bytes]]

OPENAPI = b"/openapi.json"
"""Path of the OpenAPI document."""
BODY_BYTES_MAX = 4 << 20
CACHED_BODY_BYTES_MAX = 16 << 10

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ApiSettings:
    """What the application is made with.

    Attributes:
        facts: of the program and the cluster.
        pages: of the program by path, such as /metrics, for everybody: functions of the header `Accept`
            that return status, content type and body.
        body_bytes_max: of a request.
        rate_limit: of each user, or of each address where nobody logs in.
        log_ins: checks users; None where nobody logs in: then certificates alone say who clients are.
        identifies: whether clients may say who they are.
        needs_user: whether those that do not are refused.
        rules: what users may do; None: everything.
    """

    facts: ProgramFacts
    pages: Mapping[bytes, Page] = field(default_factory=dict)
    body_bytes_max: int = BODY_BYTES_MAX
    rate_limit: RateLimit = field(default_factory=lambda: RateLimit(0))
    log_ins: LogIns | None = None
    identifies: bool = False
    needs_user: bool = False
    rules: AccessRules | None = None


class _Request:
    """One request, as its steps need it."""

    __slots__ = ("accept", "address", "content_type", "kind", "method", "receive", "scope", "user")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope, self.receive = scope, receive
        self.method: str = scope["method"]
        self.accept = self.content_type = b""
        for name, value in scope["headers"]:
            if name == b"accept":
                self.accept = b"%b,%b" % (self.accept, value) if self.accept else value
            elif name == b"content-type":
                self.content_type = value
        client = scope.get("client")
        self.address: str = client[0] if client else ""
        self.user = ""
        self.kind = V1_JSON

    def key(self) -> tuple[Hashable, ...]:
        """Returns everything that an answer may depend on, but the body."""
        return self.method, self.scope["raw_path"], self.scope["query_string"], self.accept, self.user

    def key_bytes(self) -> int:
        """Returns the size of the key, which clients choose."""
        scope = self.scope
        return len(scope["raw_path"]) + len(scope["query_string"]) + len(self.accept) + len(self.user)

    def target(self) -> str:
        """Returns path and query as the client sent them."""
        raw, query = self.scope["raw_path"], self.scope["query_string"]
        text: str = (raw + b"?" + query if query else raw).decode("latin-1")
        return text


class RegistryApp:
    """The application. Belongs to the event loop of its node.

    Args:
        node: the state of the registry.
        settings: see ApiSettings.
        forwarder: sends writes on to the leader.
    """

    def __init__(self, node: RegistryNode, settings: ApiSettings, forwarder: Forwarder) -> None:
        self._node, self._settings, self._forwarder = node, settings, forwarder
        own = program_routes.routes(settings.facts)
        self._rows = (*subject_routes.ROUTES, *schema_routes.ROUTES, *setting_routes.ROUTES, *own)
        self._routes = RouteTable(self._rows)
        self._document: bytes | None = None
        self._pages = {OPENAPI: self._openapi, **settings.pages}
        self._cache = AnswerCache()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            raise NotImplementedError  # no websockets, and nothing to do at start and stop
        request = _Request(scope, receive)
        try:
            answer = await self._answer(request)
        except DisconnectedError:
            return
        except (RegistryError, HttpError) as error:
            answer = _refusal(error, request)
        except Exception:
            _log.exception("a request failed by a mistake of the registry: %s", request.method)
            answer = _refusal(HttpError(500, 500, "the registry failed to answer; its log says why"), request)
        scope[ROUTE] = answer.route
        await send(answer.start)
        await send(answer.body)

    async def _answer(self, request: _Request) -> Answer:
        settings, method, scope = self._settings, request.method, request.scope
        page = self._pages.get(scope["raw_path"])
        if page is not None and method in ("GET", "HEAD"):
            status, kind, body = page(request.accept)
            return make_answer(status, kind, body, scope["raw_path"].decode())
        if settings.identifies:
            request.user = scope[USER] = await self._user(request)
        settings.rate_limit.take(request.user or request.address)
        if settings.rules is not None and settings.rules.refresh():
            self._cache.clear()
        if method == "GET":
            found = self._cache.get(self._node.image, request.key())
            if found is not None:
                return found
        request.kind = answer_type(request.accept)
        resolve = partial(aliases.resolve, self._node.image)
        target = read_target(scope["raw_path"], scope["query_string"], resolve)
        if method == "OPTIONS":
            return make_answer(200, request.kind, b"", "options", (self._routes.options(target.parts),))
        route, names = self._routes.find(method, target.parts)
        scope[ROUTE] = route.path
        call = Call(
            target, names, None, self._may(request.user, Right.READ), self._may(request.user, Right.CONFIGURE)
        )
        self._authorize(request.user, route, names.get("subject", ""))
        if route.has_body:
            return await self._answer_body(route, call, request)
        if route.read is None:
            return await self._write(route, call, request, b"")
        image, value = await self._read(route.read, call)
        answer = _answer_value(route, _permitted(call, value), request)
        if method == "GET":
            self._cache.put(image, request.key(), answer, request.key_bytes())
        return answer

    async def _read(self, read: Read, call: Call) -> tuple[RegistryImage, Any]:
        """Returns what a route reads, and the image that this is of."""
        return await self._node.read(lambda image: (image, read(image, call)))

    def _openapi(self, accept: bytes) -> tuple[int, bytes, bytes]:
        if self._document is None:
            from bowstring.registry.api.openapi import document

            self._document = document(self._rows)
        return 200, JSON, self._document

    async def _answer_body(self, route: Route, call: Call, request: _Request) -> Answer:
        """Answers a request with a body: from the image alone, if that is possible."""
        check_request_type(request.content_type)
        body = await read_body(request.scope, request.receive, self._settings.body_bytes_max)
        image = self._node.image
        key = (*request.key(), body)
        is_small = len(body) <= CACHED_BODY_BYTES_MAX
        if is_small:
            found = self._cache.get(image, key)
            if found is not None:
                return found
        call.body = read_json(body)
        _check_references(call)
        if route.read is not None or route.known is not None:
            image, value = await self._read(
                route.read or partial(_known, route, self._decides(request)), call
            )
        else:
            value = None
        if value is None:
            return await self._write(route, call, request, body)
        answer = _answer_value(route, _permitted(call, value), request)
        if is_small:
            self._cache.put(image, key, answer, request.key_bytes() + len(body))
        return answer

    def _decides(self, request: _Request) -> bool:
        """Whether a leader is there, this registry or another one, that parses large schemas of writes."""
        return self._node.leader_url is not None or _is_forwarded(request)

    async def _write(self, route: Route, call: Call, request: _Request, body: bytes) -> Answer:
        decide = route.decide
        assert decide is not None, "a route without a decision reads"
        try:
            value = await self._node.write(lambda image: decide(image, call))
        except NotLeader as error:
            return await self._forward(error.leader_url, route, request, body)
        return _answer_value(route, value, request)

    async def _forward(self, leader_url: str | None, route: Route, request: _Request, body: bytes) -> Answer:
        headers = request.scope["headers"]
        # One that was sent on already is not sent on again: the registries do not agree on the leader yet.
        if leader_url is None or _is_forwarded(request):
            raise unknown_leader()
        sent = headers_to_forward(headers, request.address)
        answer = await self._forwarder.forward(
            ForwardedRequest(leader_url, request.method, request.target(), sent, body)
        )
        if answer.status < 300:
            # Who reads here next must find what was written there.
            await self._node.catch_up()
        return make_answer(answer.status, answer.content_type, answer.body, route.path)

    async def _user(self, request: _Request) -> str:
        """Returns the name of the user; empty without credentials, where these may be missing."""
        log_ins = self._settings.log_ins
        # Without a check, a name in a header says nothing.
        found = certificate_of(request.scope) if log_ins is None else credentials_of(request.scope)
        if found is None:
            if self._settings.needs_user:
                raise unauthorized("this registry needs a log-in; send user and password, or a token")
            return ""
        return found.user if log_ins is None else await log_ins.user(found, request.address)

    def _authorize(self, user: str, route: Route, subject: str) -> None:
        rules = self._settings.rules
        if rules is None or route.is_open:
            return
        if not rules.allows(user, route.right, normalized(subject)):
            where = f"the subject '{subject}'" if subject else "the global settings"
            raise HttpError(403, FORBIDDEN, f"the user lacks the operation {route.right.value} on {where}")

    def _may(self, user: str, right: Right) -> Callable[[str], bool] | None:
        rules = self._settings.rules
        return None if rules is None else partial(rules.allows, user, right)


def _is_forwarded(request: _Request) -> bool:
    return any(name == FORWARD for name, _ in request.scope["headers"])


def _known(route: Route, has_leader: bool, image: RegistryImage, call: Call) -> Any:
    """Returns the answer to a write that needs none; None: the leader decides.

    Raises:
        Deferred: it needs work on large schemas, and no leader would do that.
    """
    if route.known is None:
        return None
    try:
        return route.known(image, call)
    except RegistryError:
        return None  # the leader may have what this image lacks, such as a schema that is referred to
    except Deferred:
        if not has_leader:
            raise
        return None  # else two registries would do the same work, one after the other


def _permitted(call: Call, value: Any) -> Any:
    """Returns an answer, unless it is of a subject in another context that the user may not read."""
    if isinstance(value, Mapping) and "subject" in value:
        require_readable(call, value["subject"])
    return value


def _check_references(call: Call) -> None:
    """Refuses references to what the user may not read: a schema's format may show what it refers to."""
    if call.may_read is None or not isinstance(call.body, Mapping):
        return
    references = call.body.get("references")
    for each in references if isinstance(references, list) else ():
        subject = each.get("subject") if isinstance(each, Mapping) else None
        if isinstance(subject, str):
            require_readable(call, in_context_of(normalized(call.names.get("subject", "")), subject))


def _answer_value(route: Route, value: Any, request: _Request) -> Answer:
    # Texts of schemas are sent as they are, not as JSON strings.
    body = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else write_json(value)
    return make_answer(route.status, request.kind, body, route.path)


def _refusal(error: RegistryError | HttpError, request: _Request) -> Answer:
    headers = error.headers if isinstance(error, HttpError) else ()
    try:
        kind = answer_type(request.accept)
    except HttpError:
        kind = V1_JSON
    body = error_body(error.code, error.message)
    return make_answer(error.status, kind, body, request.scope.get(ROUTE, "none"), headers)
