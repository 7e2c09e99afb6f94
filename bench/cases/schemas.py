"""Measures what the check of schemas costs a broker: a topic that requires them and one that does not."""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from bench.cases.native_load import BATCH_ROWS
from bench.cases.pairs import produced, records_of_a_run
from bench.lab import PARTITIONS, RECORD_BYTES, Lab
from bench.peers.bowstring import Bowstring
from bench.peers.peer import HOST
from bench.results import CaseResult

if TYPE_CHECKING:
    import pyarrow as pa

_IDS = 8
_REQUIRED = {"confluent.value.schema.validation": "true"}


def validated(lab: Lab, name: str, title: str) -> CaseResult:
    """Produces by one client to a topic without the check and to one with it, in turn."""
    facts = {
        "records": f"{records_of_a_run(lab):,} a time, {lab.size.access_pairs} times for each topic",
        "record": f"{RECORD_BYTES} B value of one of {_IDS} schemas, no key; not compressed",
        "partitions": str(PARTITIONS),
        "figures": "medians; shares are of two runs one after the other",
    }

    def measure(peer_name: str) -> dict[str, float]:
        with _registry() as url, lab.new_peer(peer_name, {"confluent.schema.registry.url": url}) as peer:
            return produced(lab, {"off": peer, "on": peer}, _framed(), {"on": _REQUIRED})

    return lab.alternate(CaseResult(name, title, facts), measure, peers=(Bowstring.name,))


def _framed() -> pa.RecordBatch:
    """Returns BATCH_ROWS values in the wire format of registries."""
    import pyarrow as pa

    values = [
        struct.pack(">bI", 0, 1 + row % _IDS) + os.urandom(4) + b"x" * (RECORD_BYTES - 9)
        for row in range(BATCH_ROWS)
    ]
    return pa.record_batch({"value": pa.array(values, pa.binary())})


@contextmanager
def _registry() -> Iterator[str]:
    """Serves a registry that has each schema under the subject of each topic that is asked for."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def log_message(self, format: str, *arguments: object) -> None:
            """Logs nothing."""

        def do_GET(self) -> None:
            """Answers with the subjects of some thousand topics of the bench."""
            body = json.dumps([{"subject": f"bench-{number}-value", "version": 1} for number in range(5_000)])
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

    server = ThreadingHTTPServer((HOST, 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
