"""A separate network, so that the addresses of README and docs (localhost:9092) are free."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.waiting import wait_until

PORT = 9092
# The loopback interface of a new network is down.
UP = """
import fcntl, socket, struct
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH22x", b"lo", 0x41))  # SIOCSIFFLAGS: IFF_UP, IFF_RUNNING
"""


@contextlib.contextmanager
def private_network() -> Iterator[list[str]]:
    """The prefix of a command that runs in it; nothing if the system grants no namespaces.

    Then the pages' port is this machine's: one test at a time has it.
    """
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    holder = subprocess.Popen(
        ["unshare", "--net", *user, "sleep", "infinity"], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    try:
        join = ["--user", "--preserve-credentials"] if user else []
        prefix = ["nsenter", "--target", str(holder.pid), "--net", *join, "--"]
        if _is_apart(holder) and _run([*prefix, sys.executable, "-c", UP]):
            yield prefix
            return
    finally:
        holder.kill()
        holder.wait()
    with Path(tempfile.gettempdir(), f"bowstring-readme-{PORT}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with socket.socket() as probe:
            assert probe.connect_ex(("localhost", PORT)) != 0, (
                f"port {PORT}, which README and docs name, is taken: stop what listens"
            )
        yield []


def _is_apart(holder: subprocess.Popen[bytes]) -> bool:
    """Waits until the namespace is there; False if there will be none."""
    ours = os.readlink("/proc/self/ns/net")

    def is_decided() -> bool:
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{holder.pid}/ns/net") != ours:
                return True
        return holder.poll() is not None

    wait_until(is_decided, "no namespace, and no reason why")
    return holder.poll() is None


def _run(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
