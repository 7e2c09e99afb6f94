"""Kafka's own command-line classes."""

import subprocess

from tests.support import peers
from tests.support.waiting import HANG_S

TOOLS = "org.apache.kafka.tools"


def java_tool(name: str, *arguments: str, text: str = "") -> str:
    """Runs one of Kafka's tools in a JVM of its own and returns what it printed; fails with its error."""
    with peers.class_archive() as options:
        command = [*peers.java_command(), *options, "-cp", peers.kafka_classpath(), name, *arguments]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=HANG_S, check=False
        )
    assert done.returncode == 0, f"{name} {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout
