"""Talks to schema registries by Confluent's REST API."""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from bowstring.clients.errors import ConfigError
from bowstring.clients.http_login import HttpLogin
from bowstring.clients.registry.kept_connections import KeptConnections
from bowstring.clients.registry.registered_schema import RegisteredSchema, SchemaReference
from bowstring.clients.registry.registry_errors import SchemaNotFoundError, SchemaRegistryError

A = TypeVar("A")
T = TypeVar("T", int, str)
TIMEOUT_S = 10.0
# A registry that is away is not asked again for so long, so that polls do not wait each time.
FAILURE_KEPT_S = 5.0
ANSWER_BYTES_MAX = 64 << 20
REASON_CHARACTERS_MAX = 500
ANSWERS_MAX = 10_000
TEXTS_CHARACTERS_MAX = 64 << 20
"""Of all schemas that are kept."""
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryClient:
    """Finds and registers schemas. Any thread may call.

    Answers are kept, because a schema with an id never changes; failures for 5 seconds. Connections are kept,
    too: see KeptConnections.

    Args:
        addresses: such as http://registry:8081, or several with commas between them; they are tried in turn.
            An address may have a user and a password, as http://user:password@host.
        login: how to log in.
        timeout_s: seconds that one request may take.

    Raises:
        ConfigError: an address is not one of HTTP, or a certificate cannot be read.
    """

    def __init__(
        self,
        addresses: str | Iterable[str],
        login: HttpLogin = HttpLogin(),  # noqa: B008
        timeout_s: float = TIMEOUT_S,
    ):
        given = addresses.split(",") if isinstance(addresses, str) else list(addresses)
        parts = [_checked(each.strip()) for each in given] or [_checked("")]
        self.addresses = [_bare(each) for each in parts]
        self._login = login
        self._timeout_s = timeout_s
        user = login.user or urllib.parse.unquote(parts[0].username or "")
        password = login.password or urllib.parse.unquote(parts[0].password or "")
        self._headers = {"Accept": f"{MEDIA_TYPE}, application/json"}
        if said := login._replace(user=user, password=password).authorization():
            self._headers["Authorization"] = said
        self._tls = login.tls(_SERVER) if any(each.scheme == "https" for each in parts) else None
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Any] = {}
        self._found_characters = 0
        self._failed: dict[tuple[str, str], tuple[float, SchemaRegistryError]] = {}
        self._away: tuple[float, SchemaRegistryError] | None = None
        connections = KeptConnections(self._tls)
        self._opener = urllib.request.build_opener(connections, _Redirects())
        weakref.finalize(self, connections.close)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name in _PICKLED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._tls = (
            self._login.tls(_SERVER) if any(each.startswith("https:") for each in self.addresses) else None
        )
        self._begin()

    @property
    def address(self) -> str:
        """The addresses, without user and password."""
        return ",".join(self.addresses)

    def __repr__(self) -> str:
        return f"RegistryClient({self.address!r})"

    # ------------------------------------------------------------ reads

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """Returns the schema with an id.

        Raises:
            SchemaNotFoundError: the registry has no schema with this id.
            SchemaRegistryError: the registry does not answer, or refuses.
        """
        return self._schema(f"/schemas/ids/{schema_id}", f"schema {schema_id}")._replace(schema_id=schema_id)

    def by_guid(self, guid: bytes) -> RegisteredSchema:
        """Returns the schema with a guid of 16 bytes. Raises like `by_id`."""
        text = str(uuid.UUID(bytes=guid))
        return self._schema(f"/schemas/guids/{text}", f"schema {text}")._replace(guid=guid)

    def by_version(self, subject: str, version: int, *, kind: str = "") -> RegisteredSchema:
        """Returns a version of a subject, such as a schema that another one references. Raises like `by_id`.

        Args:
            kind: the schema's, if known: it saves a request.
        """
        path = f"/subjects/{_quoted(subject)}/versions/{version}"
        return self._schema(path, f"version {version} of subject {subject}", kind)

    def latest(self, subject: str) -> RegisteredSchema:
        """Returns the newest version of a subject, which is not kept. Raises like `by_id`."""
        path = f"/subjects/{_quoted(subject)}/versions/latest"
        return self._schema(path, f"the newest version of subject {subject}", kept=False)

    def as_registered(self, subject: str, version: int) -> RegisteredSchema:
        """Returns a version of a subject with its text as it was registered, also of Protobuf. Raises like
        `by_id`.
        """
        path = f"/subjects/{_quoted(subject)}/versions/{version}"
        what = f"version {version} of subject {subject}"
        return self._failing(("GET", f"{path} as registered"), lambda: self._got(path, what))

    def subjects(self) -> list[str]:
        """Returns the names of all subjects. Raises like `by_id`."""
        return self._list("/subjects", "its subjects", _text)

    def versions(self, subject: str) -> list[int]:
        """Returns the versions of a subject, oldest first. Raises like `by_id`."""
        return self._list(f"/subjects/{_quoted(subject)}/versions", f"versions of subject {subject}", _number)

    def _list(self, path: str, what: str, item: Callable[[Any], T]) -> list[T]:
        def ask() -> list[T]:
            answer = self._call("GET", path, what)
            try:
                if not isinstance(answer, list):
                    raise TypeError("not a list")
                return sorted(map(item, answer))
            except _WRONG_ANSWERS as error:
                raise self._garbled(what, error) from None

        return self._failing(("GET", path), ask)

    def _schema(self, path: str, what: str, kind: str = "", *, kept: bool = True) -> RegisteredSchema:
        def ask() -> RegisteredSchema:
            found = self._got(path + (_SERIALIZED if kind == "PROTOBUF" else ""), what)
            return self._got(path + _SERIALIZED, what) if found.kind == "PROTOBUF" and not kind else found

        return self._kept(("GET", path), ask) if kept else self._failing(("GET", path), ask)

    def _got(self, path: str, what: str) -> RegisteredSchema:
        answer = self._call("GET", path, what)
        try:
            return _registered(answer)
        except _WRONG_ANSWERS as error:
            raise self._garbled(what, error) from None

    # ------------------------------------------------------------ writes

    def register(
        self, subject: str, schema: RegisteredSchema, *, normalize: bool = False
    ) -> RegisteredSchema:
        """Registers a schema under a subject, unless it is there; returns it with its id, and its guid if the
        registry has guids.

        Raises:
            SchemaRegistryError: the registry does not answer, or refuses: the schema is invalid, or not
                compatible with the subject's versions.
        """
        return self._posted(f"/subjects/{_quoted(subject)}/versions", subject, schema, normalize)

    def look_up(self, subject: str, schema: RegisteredSchema, *, normalize: bool = False) -> RegisteredSchema:
        """Returns a schema of a subject with its id, guid and version.

        Raises:
            SchemaNotFoundError: the subject does not have it.
            SchemaRegistryError: the registry does not answer, or refuses.
        """
        return self._posted(f"/subjects/{_quoted(subject)}", subject, schema, normalize)

    def _posted(self, path: str, subject: str, schema: RegisteredSchema, normalize: bool) -> RegisteredSchema:
        path += "?normalize=true" if normalize else ""
        body = json.dumps(schema.request()).encode()

        def ask() -> RegisteredSchema:
            answer = self._call("POST", path, f"a schema of subject {subject}", body)
            try:
                found = schema._replace(
                    schema_id=_number(answer["id"]),
                    guid=_guid(answer),
                    version=_number(answer.get("version", 0)),
                )
            except _WRONG_ANSWERS as error:
                raise self._garbled(f"a schema of subject {subject}", error) from None
            return found

        # Keys are short: callers may try many large schemas.
        return self._kept((path, hashlib.sha256(body).hexdigest()), ask)

    # ------------------------------------------------------------ requests

    def _kept(self, key: tuple[str, str], ask: Callable[[], RegisteredSchema]) -> RegisteredSchema:
        with self._lock:
            found = self._found.get(key)
        if found is None:
            found = self._failing(key, ask)
            with self._lock:
                self._found_characters += len(found.text)
                if len(self._found) >= ANSWERS_MAX or self._found_characters > TEXTS_CHARACTERS_MAX:
                    self._found.clear()
                    self._found_characters = len(found.text)
                self._found[key] = found
        assert isinstance(found, RegisteredSchema)
        return found

    def _failing(self, key: tuple[str, str], ask: Callable[[], A]) -> A:
        """Asks, unless the same has failed a moment ago."""
        now = time.monotonic()
        with self._lock:
            failed_at, failure = self._failed.get(key, (0.0, None))
            if failure is None and self._away is not None:
                failed_at, failure = self._away
        if failure is not None and now - failed_at < FAILURE_KEPT_S:
            raise failure.with_traceback(None)
        try:
            found = ask()
        except SchemaRegistryError as error:
            with self._lock:
                if len(self._failed) >= ANSWERS_MAX:
                    self._failed.clear()
                self._failed[key] = (time.monotonic(), error)
                self._away = self._failed[key] if error.status == 0 else None
            raise
        with self._lock:
            self._failed.pop(key, None)
            self._away = None
        return found

    def _call(self, method: str, path: str, what: str, body: bytes | None = None) -> Any:
        """Asks one registry after the other until one answers; returns the JSON of its answer."""
        last: SchemaRegistryError | None = None
        for address in self.addresses:
            try:
                return self._call_one(address, method, path, what, body)
            except SchemaRegistryError as error:
                if 300 <= error.status < 500:
                    raise
                last = error
        assert last is not None
        raise last

    def _call_one(self, address: str, method: str, path: str, what: str, body: bytes | None) -> Any:
        headers = self._headers | ({"Content-Type": MEDIA_TYPE} if body is not None else {})
        request = urllib.request.Request(address + path, body, headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                return _json(_read(response, self._timeout_s))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(address, what, error) from None
        except (ValueError, RecursionError) as error:
            raise self._garbled(what, error) from None
        except (OSError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", "") or error) or type(error).__name__
            raise SchemaRegistryError(
                f"the schema registry {address} did not return {what} ({reason}): check its address and that "
                "it runs"
            ) from None

    def _refusal(self, address: str, what: str, error: urllib.error.HTTPError) -> SchemaRegistryError:
        """Returns the error for an answer that is not 200."""
        code, said = error.code, ""
        try:
            answer = _json(_read(error, self._timeout_s))
            if isinstance(answer, Mapping):
                said = str(answer.get("message", ""))
                code = _number(answer.get("error_code", code))
        except (OSError, http.client.HTTPException, ValueError, TypeError, RecursionError):
            pass
        said = " ".join(said.split())[:REASON_CHARACTERS_MAX]
        elsewhere = "it redirects elsewhere, where the log-in is not sent: give that address"
        advice = {
            **dict.fromkeys((301, 302, 303, 307, 308), elsewhere),
            401: "it refuses the user, password or token: check the schema registry's settings",
            403: "the user may not do this: grant access in the registry",
            404: "it has none: check that producers use this registry",
            409: "it is not compatible with the subject's versions: change the schema, or the subject's "
            f"compatibility level. {said}",
            422: f"it refuses the schema: {said}",
        }.get(error.code, f"it answered HTTP {error.code}: look in its log. {said}")
        kind = SchemaNotFoundError if error.code == 404 else SchemaRegistryError
        return kind(f"the schema registry {address}, {what}: {advice.strip()}", error.code, code)

    def _garbled(self, what: str, error: Exception) -> SchemaRegistryError:
        return SchemaRegistryError(
            f"the schema registry {self.address} did not return {what} but something else ({error!r}): check "
            "that the address is a schema registry's",
            200,
        )


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a registry to other paths of its own address only: another one must not get the log-in."""

    def redirect_request(  # noqa: PLR0917 - as urllib has it
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        if _origin(newurl) != _origin(req.full_url) or req.get_method() != "GET":
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin(address: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(address)
    return parts.scheme, parts.netloc


_SERVER = "the schema registry"
_WRONG_ANSWERS = (ValueError, KeyError, TypeError, AttributeError)
_NUMBER_MAX = (1 << 31) - 1
_SERIALIZED = "?format=serialized"
_PICKLED = ("addresses", "_login", "_timeout_s", "_headers")


def _checked(address: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port):
            return parts
    except ValueError:
        pass
    named = address.rpartition("@")[2] if "@" in address else address
    raise ConfigError(f"the schema registry is {named!r}; it must be an address such as http://registry:8081")


def _bare(parts: urllib.parse.SplitResult) -> str:
    netloc = parts.netloc.rpartition("@")[2]
    return urllib.parse.urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))


def _read(response: Any, timeout_s: float) -> bytes:
    """Reads an answer that may have ANSWER_BYTES_MAX bytes and take twice the time-out: one that drips does
    not hold a poll for good.
    """
    deadline = time.monotonic() + 2 * timeout_s
    data = bytearray()
    while part := response.read1(1 << 16):
        data += part
        if len(data) > ANSWER_BYTES_MAX:
            raise ValueError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the answer took longer than {2 * timeout_s:g} s")
    if response.length:  # read1 does not say that an answer of a known length ends early
        raise http.client.IncompleteRead(bytes(data), response.length)
    return bytes(data)


def _json(data: bytes) -> Any:
    return json.loads(data)


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _NUMBER_MAX:
        raise ValueError(f"{str(value)[:50]!r} is no number of 31 bits")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a {type(value).__name__} stands where text must be")
    return value


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _guid(answer: Mapping[str, Any]) -> bytes | None:
    text = answer.get("guid")
    return None if not text else uuid.UUID(str(text)).bytes


def _registered(answer: Any) -> RegisteredSchema:
    references = tuple(
        SchemaReference(_text(each["name"]), _text(each["subject"]), _number(each["version"]))
        for each in answer.get("references") or ()
    )
    return RegisteredSchema(
        _text(answer.get("schemaType") or "AVRO"),
        _text(answer["schema"]),
        references,
        _number(answer["id"]) if "id" in answer else -1,
        _guid(answer),
        _number(answer.get("version", 0)),
    )
