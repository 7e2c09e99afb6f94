"""Runs `python -m bench.rest`: prints records per second of the REST proxy, its start and its memory.

The client is a socket that sends ready-made bytes and counts lines, so that the proxy is what is measured.
`--small` is a size for tests of this module.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.peers.bowstring import Bowstring
from bench.procfs import memory
from bowstring import Admin

MIB = 1 << 20
BLOCK = 500
RECORD = b'{"value":{"type":"JSON","data":{"id":12345,"name":"something","price":12.5,"tags":["a","b"]}}}\n'
READS = ("format=ndjson", "format=ndjson&value=json", "format=csv", "format=arrow", "format=arrow zstd")
TIMEOUT_S = 120.0


class Figure(NamedTuple):
    """One figure, of `records` records."""

    name: str
    value: float
    unit: str
    records: int


class Proxy(NamedTuple):
    """A running proxy."""

    host: str
    port: int
    pid: int
    start_seconds: float


@contextmanager
def running_proxy(servers: str) -> Iterator[Proxy]:
    """Runs `bowstring rest` for a cluster."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "bowstring", "rest", "-b", servers, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://([\d.]+):(\d+)", process.stderr.readline())
            if found is None:
                raise RuntimeError(f"the proxy did not start: {process.stderr.read()}")
            yield Proxy(found[1], int(found[2]), process.pid, time.perf_counter() - began)
        finally:
            process.terminate()


def main(arguments: list[str] | None = None) -> list[Figure]:
    """Runs the bench; returns the figures that it prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.rest")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--posts", type=int, default=2_000, help="requests with one record each")
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
    if options.small:
        options.records, options.posts = 5_000, 10
    figures = []
    with tempfile.TemporaryDirectory(prefix="bowstring-rest-") as folder, Bowstring(Path(folder)) as peer:
        servers = f"127.0.0.1:{peer.port}"
        with Admin(servers) as admin:
            admin.create_topic("records", options.partitions)
            admin.create_topic("posts", options.partitions)
            cluster = admin.describe_cluster().cluster_id
        with running_proxy(servers) as proxy:
            idle_mib = memory(proxy.pid).rss_bytes / MIB
            path = f"/v3/clusters/{cluster}/topics"
            for figure in _figures(proxy, path, options.records, options.posts):
                print(f"| {figure.name} | {figure.value:,.2f} {figure.unit} |", flush=True)
                figures.append(figure)
            busy_mib = memory(proxy.pid).rss_bytes / MIB
            print(
                f"rest: start {proxy.start_seconds:.2f} s, idle {idle_mib:.0f} MiB, then {busy_mib:.0f} MiB"
            )
    return figures


def _figures(proxy: Proxy, path: str, records: int, posts: int) -> Iterator[Figure]:
    seconds, count = _produce(proxy, f"{path}/records/records", records // BLOCK)
    yield Figure("produce stream", count / seconds, "records/s", count)
    for query in READS:
        seconds = _read(proxy, f"{path}/records/records", query)
        yield Figure(f"read {query}", count / seconds, "records/s", count)
    yield Figure("one record", _post(proxy, f"{path}/posts/records", posts), "ms", posts)


def _produce(proxy: Proxy, path: str, blocks: int) -> tuple[float, int]:
    """Sends blocks of records in one request; returns the seconds until the last answer, and the answers."""
    block = RECORD * BLOCK
    chunk = b"%x\r\n%s\r\n" % (len(block), block)
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    with socket.create_connection((proxy.host, proxy.port), timeout=TIMEOUT_S) as connection:

        def send() -> None:
            connection.sendall(head.encode())
            for _ in range(blocks):
                connection.sendall(chunk)
            connection.sendall(b"0\r\n\r\n")

        began = time.perf_counter()
        sender = threading.Thread(target=send)
        sender.start()
        answer = http.client.HTTPResponse(connection, method="POST")
        answer.begin()
        answered = good = 0
        rest = b""
        while piece := answer.read1(MIB):
            lines, newline, rest = (rest + piece).rpartition(b"\n")
            answered += lines.count(b"\n") + len(newline)
            good += lines.count(b'{"error_code":200,')
        seconds = time.perf_counter() - began
        sender.join()
    if not good == answered == blocks * BLOCK:
        raise RuntimeError(f"{answered} answers to {blocks * BLOCK} records, {good} of them good")
    return seconds, answered


def _read(proxy: Proxy, path: str, query: str) -> float:
    query, _, coding = query.partition(" ")
    connection = http.client.HTTPConnection(proxy.host, proxy.port, timeout=TIMEOUT_S)
    began = time.perf_counter()
    connection.request("GET", f"{path}?{query}", headers={"accept-encoding": coding} if coding else {})
    answer = connection.getresponse()
    while answer.read1(MIB):
        pass
    connection.close()
    if answer.status != http.client.OK:
        raise RuntimeError(f"GET {path}?{query} answers {answer.status}")
    return time.perf_counter() - began


def _post(proxy: Proxy, path: str, posts: int) -> float:
    """Returns the median time of a request with one record, in ms."""
    connection = http.client.HTTPConnection(proxy.host, proxy.port, timeout=TIMEOUT_S)
    times = []
    for _ in range(posts):
        began = time.perf_counter()
        connection.request("POST", path, RECORD, {"content-type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        times.append(1000 * (time.perf_counter() - began))
        if answer["error_code"] != http.client.OK:
            raise RuntimeError(f"a record is refused: {answer}")
    connection.close()
    return statistics.median(times)


if __name__ == "__main__":
    main(sys.argv[1:])
