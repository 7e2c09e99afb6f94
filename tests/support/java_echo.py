"""Runs Kafka's own message classes in one JVM on our bytes."""

import fcntl
import hashlib
import subprocess
from pathlib import Path

from bench.peers.install import PEERS, PeerError, kafka_classpath
from tests.support.waiting import HANG_S

SOURCE = Path(__file__).parent / "java" / "Echo.java"


def java_echo(lines):
    """Returns the answer to each line; Echo.java describes both languages.

    The program is compiled when its source has changed, against the jars that bench/peers installs from
    Maven Central.
    """
    PEERS.mkdir(exist_ok=True)
    with (PEERS / "kafka.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        libraries = kafka_classpath()
    digest = hashlib.sha256(SOURCE.read_bytes() + libraries.encode()).hexdigest()[:12]
    classes = PEERS / "classes" / f"Echo-{digest}"
    if not (classes / "Echo.class").exists():
        run(["javac", "-Xlint:all,-processing", "-cp", libraries, "-d", str(classes), str(SOURCE)])
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{classes}:{libraries}", "Echo"]
    return run(command, "\n".join(lines) + "\n").splitlines()


def run(command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=HANG_S)
    if done.returncode != 0:
        raise PeerError(f"{command[0]} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout
