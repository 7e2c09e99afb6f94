"""A schema registry of a few lines, with Confluent's REST API as far as clients need it; checks no compatibility."""

from __future__ import annotations

import base64
import json
import threading
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.addresses import own_address


class SchemaRegistryDouble:
    """What it holds, and how it answers.

    Attributes:
        subjects: ids of the versions of each subject.
        schemas: bodies by id.
        requests: method and path of each request.
        failure: (status, error code, message) of every answer; None: it works.
        login: the value of the header Authorization that it needs; None: any.
        has_guids: whether answers have guids, as Confluent's since 8.0.
    """

    def __init__(self) -> None:
        self.subjects: dict[str, list[int]] = {}
        self.schemas: dict[int, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.failure: tuple[int, int, str] | None = None
        self.login: str | None = None
        self.has_guids = True
        self.url = ""

    def add(self, subject: str, body: dict[str, Any]) -> int:
        """Registers a schema."""
        body = _plain(body)
        known = next((number for number, each in self.schemas.items() if each == body), None)
        number = len(self.schemas) + 1 if known is None else known
        self.schemas[number] = body
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def described(self, subject: str, number: int) -> dict[str, Any]:
        """What answers say about a schema."""
        guid = {"guid": str(uuid.UUID(int=number))} if self.has_guids else {}
        version = self.subjects[subject].index(number) + 1
        return {"subject": subject, "version": version, "id": number, **guid, **self.schemas[number]}

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        """Returns status and JSON."""
        if self.failure is not None:
            status, code, message = self.failure
            return status, {"error_code": code, "message": message}
        parts = [urllib.parse.unquote(each) for each in path.partition("?")[0].strip("/").split("/")]
        match (method, *parts):
            case ("POST", "subjects", subject, "versions"):
                assert body is not None
                return 200, self.described(subject, self.add(subject, body))
            case ("POST", "subjects", subject):
                found = [
                    each for each in self.subjects.get(subject, ()) if self.schemas[each] == _plain(body)
                ]
                return (200, self.described(subject, found[0])) if found else _missing(40403)
            case ("GET", "subjects"):
                return 200, list(self.subjects)
            case ("GET", "subjects", subject, "versions"):
                return 200, [1 + at for at in range(len(self.subjects[subject]))]
            case ("GET", "subjects", subject, "versions", version):
                ids = self.subjects.get(subject, [])
                place = len(ids) if version == "latest" else int(version)
                return (
                    (200, self.described(subject, ids[place - 1]))
                    if 0 < place <= len(ids)
                    else _missing(40401)
                )
            case ("GET", "schemas", "ids", number):
                guid = {"guid": str(uuid.UUID(int=int(number)))} if self.has_guids else {}
                known = self.schemas.get(int(number))
                return (200, {**guid, **known}) if known else _missing(40403)
            case ("GET", "schemas", "guids", guid):
                known = self.schemas.get(uuid.UUID(guid).int)
                return (200, {"guid": guid, **known}) if known else _missing(40403)
        return _missing(404)


def _plain(body: dict[str, Any] | None) -> dict[str, Any]:
    """Returns a request's schema without what is the default."""
    body = body or {}
    kind = body.get("schemaType", "AVRO")
    try:  # formatting is no difference
        text = json.dumps(json.loads(body["schema"]))
    except ValueError:
        text = body["schema"]
    optional = {"schemaType": kind if kind != "AVRO" else None, "references": body.get("references")}
    return {"schema": text} | {name: value for name, value in optional.items() if value}


def _missing(code: int) -> tuple[int, Any]:
    return 404, {"error_code": code, "message": "not found"}


@contextmanager
def schema_registry() -> Iterator[SchemaRegistryDouble]:
    """Runs one; yields it with its `url`."""
    double = SchemaRegistryDouble()

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            double.requests.append(f"{self.command} {self.path}")
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            if double.login is not None and self.headers.get("Authorization") != double.login:
                status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
            else:
                status, answer = double.answer(self.command, self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = respond

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer((own_address(), 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        double.url = f"http://{own_address()}:{server.server_port}"
        try:
            yield double
        finally:
            server.shutdown()
            thread.join()


def basic(user: str, password: str) -> str:
    """Returns the header of a log-in."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
