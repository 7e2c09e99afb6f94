"""Looks up in a schema registry under which subjects a schema is registered.

Blocks; for a thread of its own. Any registry with Confluent's REST API will do.
"""

import base64
import http.client
import json
import ssl
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

_TIMEOUT_S: Final = 3.0
_ANSWER_BYTES_MAX: Final = 16 << 20
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND: Final = 404
_OK: Final = 200

SchemaKey = int | bytes
"""A schema's id, or its guid of 16 bytes."""


class RegistryUnavailable(Exception):
    """No registry gives a usable answer; the text says why and what to do."""


class Registration(NamedTuple):
    """Where a schema is registered.

    Attributes:
        subjects: under which it has a version that is not deleted; empty: unknown id.
        name: the full name of its record or message, None if it has none or it was not asked for.
    """

    subjects: frozenset[str]
    name: str | None


class RegistryLookups:
    """Asks the registries in turn, the one that answered last first. For one thread.

    Args:
        urls: as http://registry:8081; a user and a password in a URL are for basic authentication.
        user_info: user:password for all of them; empty: none.
        trusted: file of PEM certificates to trust in place of the system's; empty: the system's.

    Raises:
        ValueError: an address is not one of HTTP.
    """

    def __init__(self, urls: Sequence[str], *, user_info: str = "", trusted: str = "") -> None:
        self._places = [urlsplit(each.strip()) for each in urls if each.strip()]
        for each in self._places:
            if each.scheme not in ("http", "https") or not each.hostname:
                raise ValueError(
                    f"confluent.schema.registry.url has {each.hostname or each.geturl()!r}; give addresses "
                    "as http://registry:8081"
                )
        self._user_info = user_info
        self._trusted = trusted
        self._connections: dict[int, http.client.HTTPConnection] = {}

    def registration(self, schema: SchemaKey, *, named: bool) -> Registration:
        """Returns where a schema is registered.

        Args:
            schema: its id or guid.
            named: whether the name of its record is wanted, too.

        Raises:
            RegistryUnavailable: no registry answers, or not as registries do.
        """
        if isinstance(schema, bytes):
            found = self._get(f"/schemas/guids/{uuid.UUID(bytes=schema)}/ids") or []
            ids = [each["id"] for each in _rows(found) if each.get("context", ".") == "."]
        else:
            ids = [schema]
        subjects: set[str] = set()
        name = None
        for schema_id in ids:
            versions = self._get(f"/schemas/ids/{int(schema_id)}/versions") or []
            subjects.update(str(each["subject"]) for each in _rows(versions))
            if named and subjects:
                name = _record_name(self._get(f"/schemas/ids/{int(schema_id)}") or {})
        return Registration(frozenset(subjects), name)

    def close(self) -> None:
        """Closes the connections."""
        for place in list(self._connections):
            self._drop(place)

    def _get(self, path: str) -> Any:
        """Returns the document at a path; None: the registry has no such thing."""
        if not self._places:
            raise RegistryUnavailable("the broker has no schema registry; set confluent.schema.registry.url")
        reasons = []
        for place in range(len(self._places)):
            for _ in range(2):  # a connection that was kept may have been closed meanwhile
                fresh = place not in self._connections
                try:
                    answer = self._get_at(place, path)
                except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
                    self._drop(place)
                    reason = str(error) or type(error).__name__
                    if not fresh:
                        continue
                    reasons.append(f"{self._places[place].hostname}: {reason}")
                    break
                if place:
                    self._prefer(place)
                return answer
        raise RegistryUnavailable(f"the schema registry does not answer ({'; '.join(reasons)})")

    def _get_at(self, place: int, path: str) -> Any:
        url = self._places[place]
        connection = self._connections.get(place)
        if connection is None:
            connection = self._connections[place] = self._connection(url)
        connection.request("GET", url.path.rstrip("/") + path, headers=self._headers(url))
        answer = connection.getresponse()
        body = answer.read(_ANSWER_BYTES_MAX + 1)
        if len(body) > _ANSWER_BYTES_MAX:
            raise ValueError(f"an answer has more than {_ANSWER_BYTES_MAX} bytes")
        if answer.status == _NOT_FOUND:
            return None
        if answer.status != _OK:
            raise ValueError(f"status {answer.status} {answer.reason}")
        return json.loads(body)

    def _connection(self, url: SplitResult) -> http.client.HTTPConnection:
        assert url.hostname is not None
        if url.scheme == "http":
            return http.client.HTTPConnection(url.hostname, url.port or 80, timeout=_TIMEOUT_S)
        context = ssl.create_default_context(cafile=self._trusted or None)
        return http.client.HTTPSConnection(url.hostname, url.port or 443, timeout=_TIMEOUT_S, context=context)

    def _headers(self, url: SplitResult) -> Mapping[str, str]:
        user_info = self._user_info
        if url.username:
            user_info = f"{unquote(url.username)}:{unquote(url.password or '')}"
        if not user_info:
            return {"Accept": _ACCEPT}
        return {"Accept": _ACCEPT, "Authorization": f"Basic {base64.b64encode(user_info.encode()).decode()}"}

    def _drop(self, place: int) -> None:
        connection = self._connections.pop(place, None)
        if connection is not None:
            with suppress(OSError):
                connection.close()

    def _prefer(self, place: int) -> None:
        self.close()
        self._places.insert(0, self._places.pop(place))


def _rows(answer: Any) -> list[dict[str, Any]]:
    if not isinstance(answer, list) or not all(isinstance(each, dict) for each in answer):
        raise RegistryUnavailable(
            "the schema registry's answer is not a list; check confluent.schema.registry.url"
        )
    return answer


def _record_name(schema: Any) -> str | None:
    """Returns the full name of a schema's record or message, as subject name strategies take it."""
    if not isinstance(schema, dict) or not isinstance(text := schema.get("schema"), str):
        return None
    kind = schema.get("schemaType", "AVRO")
    if kind == "PROTOBUF":
        return _message_name(text)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        return None
    name, namespace = parsed.get("title" if kind == "JSON" else "name"), parsed.get("namespace")
    if not isinstance(name, str):
        return None
    has_namespace = kind == "AVRO" and isinstance(namespace, str) and namespace and "." not in name
    return f"{namespace}.{name}" if has_namespace else name


def _message_name(text: str) -> str | None:
    """Returns package and name of the first message of a .proto text."""
    package = ""
    words = _without_comments(text).replace("{", " { ").replace(";", " ; ").split()
    for at, word in enumerate(words[:-1]):
        if word == "package" and not package:
            package = words[at + 1]
        elif word == "message":
            return f"{package}.{words[at + 1]}" if package else words[at + 1]
    return None


def _without_comments(text: str) -> str:
    kept: list[str] = []
    at = 0
    while True:
        line, block = text.find("//", at), text.find("/*", at)
        starts = [each for each in (line, block) if each >= 0]
        if not starts:
            return "".join((*kept, text[at:]))
        start = min(starts)
        kept.append(text[at:start])
        end = text.find("\n", start) if start == line else text.find("*/", start)
        if end < 0:
            return "".join(kept)
        at = end if start == line else end + 2
        kept.append(" ")
