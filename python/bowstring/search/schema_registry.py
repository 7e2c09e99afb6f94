"""Gets writers' schemas from a schema registry with Confluent's REST API."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, NamedTuple

from bowstring.clients.errors import ClientError, ConfigError

TIMEOUT_S = 3.0
FAILURE_KEPT_S = 30.0
ANSWER_BYTES_MAX = 8 << 20
SCHEMAS_MAX = 10_000


class SchemaRegistryError(ClientError):
    """A schema registry does not answer, or has no such schema."""


class RegisteredSchema(NamedTuple):
    """A schema of a registry.

    Attributes:
        kind: AVRO, JSON or PROTOBUF.
        text: the schema; of Protobuf a FileDescriptorProto in Base64.
        references: schemas that it imports: name, subject and version of each.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str, int], ...]


class SchemaRegistry:
    """Finds schemas by id and by subject and version. Any thread may call.

    Answers are kept; failures for 30 seconds.

    Args:
        address: such as http://registry:8081; may have a user and a password, as http://user:password@host.
        user, password: for basic authentication.

    Raises:
        ConfigError: the address is not one of HTTP.
    """

    def __init__(self, address: str, user: str = "", password: str = ""):
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"the schema registry is {parts.hostname or address!r}; it must be an address such as "
                "http://registry:8081"
            )
        user, password = (
            user or urllib.parse.unquote(parts.username or ""),
            password or urllib.parse.unquote(parts.password or ""),
        )
        self.address = urllib.parse.urlunsplit(
            (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")
        )
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if user:
            secret = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {secret}"
        self._lock = threading.Lock()
        self._found: dict[str, RegisteredSchema] = {}
        self._failed: dict[str, tuple[float, SchemaRegistryError]] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.address!r})"

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """Returns the schema with an id.

        Raises:
            SchemaRegistryError: the registry does not answer, or has no schema with this id.
        """
        found = self._cached(f"/schemas/ids/{schema_id}", f"schema {schema_id}")
        if found.kind == "PROTOBUF":
            return self._cached(f"/schemas/ids/{schema_id}?format=serialized", f"schema {schema_id}")
        return found

    def by_version(self, subject: str, version: int, *, kind: str) -> RegisteredSchema:
        """Returns a version of a subject, such as a schema that another one references.

        Raises:
            SchemaRegistryError: the registry does not answer, or has no such version.
        """
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}"
        form = "?format=serialized" if kind == "PROTOBUF" else ""
        return self._cached(path + form, f"version {version} of subject {subject}")

    def _cached(self, path: str, what: str) -> RegisteredSchema:
        with self._lock:
            if path in self._found:
                return self._found[path]
            failed_at, failure = self._failed.get(path, (0.0, None))
        if failure is not None and time.monotonic() - failed_at < FAILURE_KEPT_S:
            raise failure
        try:
            found = self._get(path, what)
        except SchemaRegistryError as error:
            with self._lock:
                self._failed = dict([*self._failed.items()][-SCHEMAS_MAX:])
                self._failed[path] = (time.monotonic(), error)
            raise
        with self._lock:
            if len(self._found) >= SCHEMAS_MAX:
                self._found.clear()
            self._found[path] = found
        return found

    def _get(self, path: str, what: str) -> RegisteredSchema:
        request = urllib.request.Request(self.address + path, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                data = response.read(ANSWER_BYTES_MAX + 1)
            if len(data) > ANSWER_BYTES_MAX:
                raise ValueError("the answer is too large")
            answer: dict[str, Any] = json.loads(data)
            references = tuple(
                (str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in answer.get("references") or ()
            )
            return RegisteredSchema(str(answer.get("schemaType", "AVRO")), str(answer["schema"]), references)
        except urllib.error.HTTPError as error:
            reason = {
                401: "it refuses the user or password: check the schema registry's settings",
                403: "the user may not read it: grant read access in the registry",
                404: "it has none: check that producers use this registry",
            }.get(error.code, f"it answered HTTP {error.code}: look in its log")
            raise SchemaRegistryError(f"the schema registry {self.address}, {what}: {reason}") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            reason = str(getattr(error, "reason", error))
            raise SchemaRegistryError(
                f"the schema registry {self.address} did not return {what} ({reason}): check its address and "
                "that it runs"
            ) from None
