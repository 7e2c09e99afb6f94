"""Kafka's own command-line classes."""

import atexit
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from bench.peers.install import PeerError
from bench.peers.toolhost import ToolHost
from tests.support import peers
from tests.support.waiting import HANG_S

TOOLS = "org.apache.kafka.tools"
# The producing and consuming tools read standard input, or count the records read in static fields.
OF_ONE_USE = {
    f"{TOOLS}.{name}"
    for name in (
        "ConsoleProducer",
        "consumer.ConsoleConsumer",
        "ProducerPerformance",
        "ConsumerPerformance",
        "EndToEndLatency",
        "VerifiableProducer",
        "VerifiableConsumer",
    )
}


def java_tool(name: str, *arguments: str, text: str = "", jar: Path | None = None) -> str:
    """Runs one of Kafka's tools and returns what it printed on standard output; fails with its error.

    `jar` has further classes for a tool with a JVM of its own.

    Tools that only send requests share a JVM, whose start costs more than their work.
    """
    if name in OF_ONE_USE:
        return _in_its_own(name, arguments, text, jar)
    assert not text and jar is None, f"{name} gets no standard input, and no further classes"
    try:
        return "".join(f"{line}\n" for line in _shared().run(name, list(arguments), HANG_S))
    except PeerError as error:
        _shared.cache_clear()
        raise AssertionError(f"{name} {' '.join(arguments)}:\n{error}") from None


def _in_its_own(name: str, arguments: tuple[str, ...], text: str, jar: Path | None) -> str:
    with peers.class_archive() as options:
        # Further classes go last: a class archive needs its own class path in front.
        classes = ":".join([peers.kafka_classpath(), *([str(jar)] if jar else [])])
        command = [*peers.java_command(), *options, "-cp", classes, name, *arguments]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=HANG_S, check=False
        )
    assert done.returncode == 0, f"{name} {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout


@cache
def _shared() -> ToolHost:
    peers.kafka_classpath()  # prints what is missing
    folder = tempfile.TemporaryDirectory(prefix="tools-")
    host = ToolHost(Path(folder.name), "tools", options=peers.SHORT_LIVED)
    atexit.register(folder.cleanup)
    atexit.register(host.close)
    return host
