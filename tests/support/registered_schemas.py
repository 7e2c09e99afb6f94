"""A schema registry of a test, with only what brokers ask: ids, their subjects, and texts."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit
from uuid import UUID

from tests.support.addresses import own_address


class RegisteredSchemas:
    """What the registry has.

    Attributes:
        subjects: the subjects of each id.
        texts: the schema of each id, and its type.
        guids: the id of each guid of 16 bytes.
        asked: the paths of the requests.
        spoilt: answered in place of everything, as (status, body); None: nothing.
        url: the registry's address.
    """

    def __init__(self):
        self.subjects: dict[int, list[str]] = {}
        self.texts: dict[int, tuple[str, str]] = {}
        self.guids: dict[bytes, int] = {}
        self.asked: list[str] = []
        self.spoilt: tuple[int, bytes] | None = None
        self.authorization: set[str | None] = set()
        self.url = ""

    def answer(self, path):
        """Returns the document at a path; None: there is none."""
        kind, schema, *rest = path.split("/")[2:]
        if kind == "guids":
            found = self.guids.get(UUID(schema).bytes)
            return None if found is None else [{"context": ".", "id": found}]
        if not self.subjects.get(int(schema)):
            return None
        if rest == ["versions"]:
            return [{"subject": each, "version": 1} for each in self.subjects[int(schema)]]
        text, kind = self.texts[int(schema)]
        return {"schema": text} | ({} if kind == "AVRO" else {"schemaType": kind})


@contextmanager
def registered_schemas():
    """Serves a `RegisteredSchemas` on loopback."""
    has = RegisteredSchemas()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # an answer in one packet, or each waits for a delayed acknowledgement

        def log_message(self, *arguments):
            pass

        def do_GET(self):
            has.asked.append(urlsplit(self.path).path)
            has.authorization.add(self.headers["Authorization"])
            status, body = has.spoilt or (0, b"")
            if not status:
                document = has.answer(urlsplit(self.path).path)
                status = 200 if document is not None else 404
                body = json.dumps(document or {"error_code": 40403, "message": "no such schema"}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer((own_address(), 0), Handler)
    has.url = f"http://{server.server_address[0]}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield has
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
