"""A Kafka Connect of a few lines, with its REST API as far as the console needs it."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.addresses import own_address

CLASS = "org.example.CountingSource"
WORKER = "10.0.0.7:8083"
DEFINITIONS = {"topic": "STRING", "most": "LONG", "pin": "PASSWORD"}
_ACTIONS = {"pause": "PAUSED", "resume": "RUNNING", "stop": "STOPPED"}


class ConnectDouble:
    """What it holds, and how it answers.

    Attributes:
        configs: by connector.
        states: of connectors.
        traces: why the task of a connector has failed.
        requests: method and path of each request, with its query.
        definitions: types of configs; None: it has none, as before 3.2.
        said: what its validation says beside its own text.
        login: user and password that it needs; None: nobody logs in.
        raw: a whole answer in bytes instead of its own; an empty one never comes.
    """

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.states: dict[str, str] = {}
        self.traces: dict[str, str] = {}
        self.requests: list[str] = []
        self.definitions: dict[str, str] | None = dict(DEFINITIONS)
        self.said = ""
        self.login: tuple[str, str] | None = None
        self.raw: bytes | None = None
        self.url = ""
        self.ended = threading.Event()

    def add(self, name: str, /, **config: str) -> None:
        """Creates a connector."""
        self.configs[name] = {"connector.class": CLASS, "name": name, "tasks.max": "1", **config}
        self.states[name] = "RUNNING"

    def status(self, name: str) -> dict[str, Any]:
        """What it reports of a connector."""
        task = {"id": 0, "state": "RUNNING", "worker_id": WORKER}
        if name in self.traces:
            task |= {"state": "FAILED", "trace": self.traces[name]}
        head = {"state": self.states[name], "worker_id": WORKER}
        return {"name": name, "connector": head, "tasks": [task], "type": "source"}

    def info(self, name: str) -> dict[str, Any]:
        """What it has of a connector."""
        return {"name": name, "config": self.configs[name], "tasks": [], "type": "source"}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Returns status and JSON; None for no body."""
        bare, _, query = path.partition("?")
        parts = [urllib.parse.unquote(each) for each in bare.strip("/").split("/")]
        if parts[0] == "connectors" and len(parts) > 1 and parts[1] not in self.configs:
            return 404, {"error_code": 404, "message": f"Connector {parts[1]} not found"}
        match (method, *parts):
            case ("GET", "connectors"):
                return 200, {
                    each: {"status": self.status(each), "info": self.info(each)} for each in self.configs
                }
            case ("POST", "connectors"):
                if body["name"] in self.configs:
                    return 409, {"error_code": 409, "message": f"Connector {body['name']} already exists"}
                self.add(body["name"], **body["config"])
                return 201, self.info(body["name"])
            case ("GET", "connectors", name):
                return 200, self.info(name)
            case ("DELETE", "connectors", name):
                del self.configs[name]
                return 204, None
            case ("GET", "connectors", name, "status"):
                return 200, self.status(name)
            case ("GET", "connectors", name, "config"):
                return 200, self.configs[name]
            case ("PUT", "connectors", name, "config"):
                self.configs[name] = dict(body)
                return 200, self.info(name)
            case ("GET", "connectors", name, "topics"):
                return 200, {name: {"topics": ["orders"]}}
            case ("GET", "connectors", name, "offsets"):
                return 200, {"offsets": [{"partition": {"file": "in"}, "offset": {"line": 11}}]}
            case ("PUT", "connectors", name, action) if action in _ACTIONS:
                self.states[name] = _ACTIONS[action]
                return 202, None
            case ("POST", "connectors", name, *_):
                self.traces.pop(name, None)
                return (202, self.status(name)) if "includeTasks" in query else (204, None)
            case ("GET", "connector-plugins"):
                return 200, [{"class": CLASS, "type": "source", "version": "1"}]
            case ("GET", "connector-plugins", _, "config") if self.definitions is not None:
                return 200, [{"name": name, "type": kind} for name, kind in self.definitions.items()]
            case ("PUT", "connector-plugins", _, "config", "validate"):
                return 200, {
                    "configs": [self._checked(name, body) for name in self.definitions or DEFINITIONS]
                }
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _checked(self, name: str, config: Mapping[str, str]) -> dict[str, Any]:
        value = config.get(name)
        errors = []
        if name == "most" and value is not None and not value.isdigit():
            errors = [f"Invalid value {value} for configuration most: {config.get('pin')} is no number"]
            errors.append(self.said)
        return {
            "definition": {"name": name, "type": (self.definitions or DEFINITIONS)[name]},
            "value": {"name": name, "value": value, "errors": errors},
        }


@contextlib.contextmanager
def connect_double() -> Iterator[ConnectDouble]:
    """Serves a double until the block ends."""
    double = ConnectDouble()

    class Handler(BaseHTTPRequestHandler):
        """Answers from `double`."""

        def _serve(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            double.requests.append(f"{self.command} {self.path}")
            if double.raw is not None:
                self._serve_raw(double.raw)
                return
            status, found = double.answer(self.command, self.path, body)
            if double.login is not None:
                secret = base64.b64encode(":".join(double.login).encode()).decode()
                if self.headers.get("authorization") != f"Basic {secret}":
                    status, found = 401, {"message": "log in"}
            data = b"" if found is None else json.dumps(copy.deepcopy(found)).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _serve_raw(self, raw: bytes) -> None:
            self.close_connection = True
            if not raw:
                double.ended.wait(30)
                return
            with contextlib.suppress(OSError):  # whoever asked had enough
                self.wfile.write(raw)

        do_GET = do_POST = do_PUT = do_DELETE = _serve

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer((own_address(), 0), Handler) as server:
        double.url = f"http://{own_address()}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield double
        finally:
            double.ended.set()
            server.shutdown()
            thread.join()
