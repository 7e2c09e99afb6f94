"""Twenty thousand clients in TLS handshakes that never end, while others work."""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from bowstring import Admin
from tests.support.plane_client import PlaneClient
from tests.support.plane_requests import batch, only, produce
from tests.support.readable import readable
from tests.support.secured_nodes import key_files
from tests.support.serving import Process, hear_hangups
from tests.support.tls_contexts import python_context
from tests.support.waiting import HANG_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
WANTED = 20_000
OTHERS = 1_000  # descriptors of the broker that are not for the attack
REACTORS = 2
LIMIT_S = 10  # of a handshake
ROUNDS, REQUESTS = 4, 200
FRESH = 10
# What the broker may use: Connection with its entries in epoll and lists, and what BEGUN_MAX (handshakes.pyx) handshakes
# of each reactor hold in OpenSSL.
EACH_BYTES, BEGUN_BYTES, BEGUN_MAX = 2_048, 64 << 10, 1_024
BEGUN = 1_600  # of the attackers: not yet as many as all reactors allow
SLACK_BYTES = 32 << 20
VERSION = 12  # the last of Produce that names topics


def possible():
    """How many connections the hard limit of descriptors allows, and what to say of it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    count = min(WANTED, hard - OTHERS)
    return count, "" if count == WANTED else f" (the hard limit of descriptors is {hard})"


def all_descriptors():
    hear_hangups()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def lazily():
    hear_hangups()
    os.nice(10)


@pytest.fixture
def broker(tmp_path):
    settings = key_files(tmp_path) | {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "bowstring.authentication.timeout.ms": str(LIMIT_S * 1000),
        "bowstring.reactor.threads": str(REACTORS),
        "log.dirs": str(tmp_path / "data"),
    }
    (tmp_path / "server.properties").write_text(
        "".join(f"{name}={value}\n" for name, value in settings.items())
    )
    broker = Process("--config", str(tmp_path / "server.properties"), preexec_fn=all_descriptors)
    broker.ports = {
        name: int(where.rpartition(":")[2])
        for name, _, where in (each.partition("://") for each in broker.facts["listeners"].split(","))
    }
    yield broker
    broker.stop()


@contextmanager
def attack(port, count):
    """A process that holds that many; `attack.counts()` is its last report."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.half_open", str(port), str(count), str(BEGUN), str(int(HANG_S))],
        preexec_fn=lazily, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    reports = [{"open": 0, "begun": 0, "closed": 0}]
    rest = b""

    def counts():
        nonlocal rest
        while readable(process.stdout, 0) and (said := os.read(process.stdout.fileno(), 1 << 16)):
            *lines, rest = (rest + said).split(b"\n")
            reports.extend(json.loads(line) for line in lines)
        return reports[-1]

    process.counts = counts
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def resident(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS"))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def call(client):
    assert only(client.call(produce(batch(b"x" * 100), VERSION, topic="t"), VERSION)).error_code == 0


def p99_ms(client):
    """Of requests one after the other."""
    took = []
    for _ in range(REQUESTS):
        began_s = time.perf_counter()
        call(client)
        took.append(time.perf_counter() - began_s)
    return statistics.quantiles(took, n=100)[-1] * 1000


def connected(port):
    try:
        return PlaneClient(port, python_context())
    except OSError:
        return None


def connect_ms(port):
    """How long a new client takes until its first answer; it tries again when it is refused."""
    began_s = time.perf_counter()
    client = wait_until(lambda: connected(port))
    call(client)
    client.close()
    return (time.perf_counter() - began_s) * 1000


def test_others_work_beside_half_open_handshakes(broker):
    count, why = possible()
    pid, port = broker.process.pid, broker.ports["SSL"]
    with Admin(f"127.0.0.1:{broker.ports['PLAINTEXT']}") as admin:
        admin.create_topic("t")
    clients = [PlaneClient(port, python_context()) for _ in range(REACTORS)]
    alone = [p99_ms(client) for client in clients * ROUNDS]
    connect_ms(port)
    memory, used = resident(pid), descriptors(pid)

    with attack(port, count) as attackers:
        wait_until(lambda: attackers.counts()["open"] >= 0.98 * count, attackers.counts)
        beside = [p99_ms(client) for client in clients * ROUNDS]
        held, more = attackers.counts()["open"], resident(pid) - memory
        attackers.stdin.write(b"press\n")
        attackers.stdin.flush()
        wait_until(lambda: attackers.counts()["begun"] >= count + REACTORS * BEGUN_MAX, attackers.counts)
        fresh = [connect_ms(port) for _ in range(FRESH)]
        pressed = [p99_ms(client) for client in clients]
        most = max(more, resident(pid) - memory)
        print(
            f"{held:,} half-open handshakes{why}: p99 of others {min(beside):.2f} ms, without {min(alone):.2f} ms; "
            f"while more come {min(pressed):.2f} ms, a new connection {statistics.median(fresh):.0f} ms, at most "
            f"{max(fresh):.0f} ms; {more / 2**20:.0f} MB more memory, at most {most / 2**20:.0f} MB"
        )
        attackers.stdin.close()
        wait_until(lambda: attackers.counts()["open"] == 0, attackers.counts)
    wait_until(lambda: descriptors(pid) <= used, "the broker closes what it gave up")
    for client in clients:
        call(client)
        client.close()
    assert held >= 0.95 * count
    assert most <= count * EACH_BYTES + REACTORS * BEGUN_MAX * BEGUN_BYTES + SLACK_BYTES
    # Other tests take processor time, too: the best round is compared with the worst.
    assert min(beside) <= 2 * max(alone) + 1
