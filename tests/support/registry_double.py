"""A registry without a broker: an image that takes the records of decisions at once."""

import asyncio
import json

from bowstring.registry.api.forwarder import Forwarder
from bowstring.registry.api.program_routes import ProgramFacts
from bowstring.registry.api.registry_app import ApiSettings, RegistryApp
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.registry_node import NotLeader
from bowstring.registry.schema_work import SchemaWorker


def record_schema(*fields, name="A"):
    """Returns the text of an Avro record whose fields are ints."""
    fields = [{"name": each, "type": "int"} for each in fields]
    return json.dumps({"type": "record", "name": name, "fields": fields}, separators=(",", ":"))


class NodeDouble:
    """What RegistryApp uses of a RegistryNode.

    Attributes:
        leader_url: of another registry; None: this one leads.
    """

    def __init__(self, image=None):
        self.image = image or RegistryImage()
        self.is_leader, self.leader_url = True, None
        self.caught_up = 0
        self._worker = SchemaWorker()

    async def read(self, operation):
        return await self._worker.run(lambda: self.image, operation)

    async def write(self, decide):
        if not self.is_leader:
            raise NotLeader(self.leader_url)
        decision = decide(self.image)
        for key, value in decision.records:
            self.image.apply(key, value, self.image.offset + 1)
        return decision.answer

    async def catch_up(self):
        self.caught_up += 1
        return True


class RegistryDouble:
    """Speaks to the application without sockets."""

    def __init__(self, **settings):
        self.node = NodeDouble()
        self.forwarder = Forwarder()
        facts = ProgramFacts("cluster", "schema-registry")
        self.app = RegistryApp(self.node, ApiSettings(facts, **settings), self.forwarder)

    def ask(self, method, target, body=None, headers=(), scope=None):
        """Returns what `answer` does."""
        return asyncio.run(self.answer(method, target, body, headers, scope))

    async def answer(self, method, target, body=None, headers=(), scope=None):
        """Returns status, headers and body of an answer. `body`: bytes as they are, everything else as JSON."""
        path, _, query = target.partition("?")
        sent = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        asked = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
            "client": ("127.0.0.1", 1),
        } | (scope or {})
        messages = []

        async def receive():
            return {"type": "http.request", "body": sent, "more_body": False}

        async def send(message):
            messages.append(message)

        await self.app(asked, receive, send)
        assert [each["type"] for each in messages] == ["http.response.start", "http.response.body"]
        start, rest = messages
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        assert start["status"] == 204 or found["content-length"] == str(len(rest["body"]))
        return start["status"], found, rest["body"]

    def json(self, method, target, body=None, headers=()):
        """Returns status and JSON value of an answer."""
        status, _, found = self.ask(method, target, body, headers)
        return status, json.loads(found) if found else None
