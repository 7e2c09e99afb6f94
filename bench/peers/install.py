"""Downloads Apache Kafka's jars from Maven Central, and compiles the small Java programs beside this file.

Everything is stored in `.peers/` at the top of the checkout, which git ignores.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PEERS = ROOT / ".peers"
POM = HERE / "pom.xml"
JAVA_SOURCES = HERE / "java"

# Options that kafka-run-class.sh passes to every JVM.
JVM_PERFORMANCE_OPTIONS = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]

# Spark's own Kafka connector and its dependencies beyond PySpark's jars, listed one by one, without the
# repositories that parent POMs would add. The token provider only serves delegation tokens, which are unused
# here.
SPARK_KAFKA_ARTIFACTS = [
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:3.5.1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
]

# Kafka Streams and its store, which Kafka's broker and tools do not have.
STREAMS_ARTIFACTS = ["org.apache.kafka:kafka-streams", "org.rocksdb:rocksdbjni:10.1.3"]


class PeerError(Exception):
    """A peer or a tool could not be installed, started or driven; the message says what to do."""


def kafka_version() -> str:
    """Returns the Apache Kafka version in pom.xml."""
    match = re.search(r"<kafka\.version>([^<]+)<", POM.read_text())
    if match is None:
        raise PeerError(f"{POM.name} has no <kafka.version>")
    return match.group(1)


def kafka_classpath() -> str:
    """Returns the class path of Kafka's broker and tools; installs them at the first call.

    Raises:
        PeerError: Java or Maven is missing, or Maven failed.
    """
    needed = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    home = PEERS / f"kafka-{kafka_version()}-{needed}"
    with _alone():
        if not (home / "complete").exists():
            _install(home)
    return f"{home / 'libs'}/*"


def spark_kafka_jars() -> list[str]:
    """Returns the jars that give a PySpark session `format("kafka")`; installs them at the first call.

    Raises:
        PeerError: Java or Maven is missing, or Maven failed.
    """
    return _jars("spark-kafka", SPARK_KAFKA_ARTIFACTS)


def streams_jars() -> list[str]:
    """Returns the jars of Kafka Streams beyond `kafka_classpath`; installs them at the first call.

    Raises:
        PeerError: Java or Maven is missing, or Maven failed.
    """
    versioned = [each if each.count(":") > 1 else f"{each}:{kafka_version()}" for each in STREAMS_ARTIFACTS]
    return _jars("streams", versioned)


def kafka_clients_jar() -> Path:
    """Returns the jar with the definitions of every message; installs Kafka at the first call.

    Raises:
        PeerError: Java or Maven is missing, or Maven failed.
    """
    (jar,) = Path(kafka_classpath()).parent.glob("kafka-clients-*.jar")
    return jar


def _jars(name: str, artifacts: list[str]) -> list[str]:
    needed = hashlib.sha256("\n".join(artifacts).encode()).hexdigest()[:12]
    home = PEERS / f"{name}-{needed}"
    with _alone():
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            for artifact in artifacts:
                goal = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={home}"]
                _run(["mvn", "--quiet", "--batch-mode", *goal])
            (home / "complete").touch()
    return sorted(map(str, home.glob("*.jar")))


def java_program(name: str) -> str:
    """Returns the class path of `java/<name>.java`, compiled against Kafka's jars when its source has
    changed.
    """
    source = JAVA_SOURCES / f"{name}.java"
    digest = hashlib.sha256(source.read_bytes() + POM.read_bytes()).hexdigest()[:12]
    classes = PEERS / "classes" / f"{name}-{digest}"
    libraries = kafka_classpath()
    with _alone():
        if not (classes / f"{name}.class").exists():
            _run(["javac", "-Xlint:all,-processing", "-cp", libraries, "-d", str(classes), str(source)])
    return f"{classes}:{libraries}"


def java_version() -> str:
    """First line of `java -version`."""
    _require("java")
    output = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return output.splitlines()[0]


@contextmanager
def _alone() -> Iterator[None]:
    """Locks for one process at a time: Maven's user repository does not support two."""
    PEERS.mkdir(exist_ok=True)
    with (PEERS / "install.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _install(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    libs = home / "libs"
    goal = "dependency:copy-dependencies"
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={libs}"]
    _run(["mvn", "--quiet", "--batch-mode", "--file", str(POM), goal, *options])
    if not any(libs.glob("kafka_2.13-*.jar")):
        raise PeerError(f"Maven put no kafka_2.13 jar into {libs}; remove {PEERS.name}/ and try again")
    (home / "complete").touch()


def _require(command: str) -> None:
    if shutil.which(command) is None:
        raise PeerError(f"{command} is not installed; on Debian: apt-get install default-jdk-headless maven")


def _run(command: list[str]) -> None:
    _require(command[0])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"{command[0]} failed ({done.returncode}):\n{done.stdout}{done.stderr}".rstrip())
