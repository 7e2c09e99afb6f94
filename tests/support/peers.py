"""Installs or builds programs of other languages once, below .peers/, and checks them in every run.

Nothing here is optional: a missing toolchain is a failed test with the tool's name, since a suite that skips
its clients proves nothing.
"""

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers import install

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers"
HERE = ROOT / "tests" / "conformance"
# The first compiler only, and one collector thread.
SHORT_LIVED = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]


class MissingToolError(Exception):
    """A toolchain that the suite needs is not installed, or its installation of a program failed."""


def tool(name: str, package: str) -> str:
    """Returns the path of an installed program; raises MissingToolError, which names the package to install."""
    path = shutil.which(name)
    if path is None:
        raise MissingToolError(f"{name} is not on PATH: install {package}; the conformance suite runs it")
    return path


def _run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-3000:]
        raise MissingToolError(f"`{' '.join(command)}` in {cwd} exited with {done.returncode}:\n{tail}")


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Allows one installer at a time, also across test processes (pytest-xdist, two checkouts)."""
    PEERS.mkdir(exist_ok=True)
    with (PEERS / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fingerprint(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def kafka_classpath() -> str:
    """Returns the class path of Apache Kafka's broker, tools and clients, downloaded from Maven Central on first use."""
    tool("java", "a JDK (Debian: default-jdk-headless)")
    tool("mvn", "Maven (Debian: maven)")
    return install.kafka_classpath()


def java_driver() -> list[str]:
    """Returns the command that starts the Java driver, compiled with javac against Kafka's own jars."""
    classes = _compiled("java", kafka_classpath())
    return [*java_command(), "-cp", classes, "Driver"]


def streams_app() -> list[str]:
    """Returns the command of the Kafka Streams application in tests/conformance/streams."""
    tool("mvn", "Maven (Debian: maven)")
    classes = _compiled("streams", ":".join([*install.streams_jars(), kafka_classpath()]))
    return [*java_command(), "-cp", classes, "Counts"]


def connect_plugins() -> Path:
    """Returns the folder of plugins with the connector in tests/conformance/connect."""
    classes, _, _ = _compiled("connect", kafka_classpath()).partition(":")
    services = Path(classes) / "META-INF" / "services"
    services.mkdir(parents=True, exist_ok=True)
    (services / "org.apache.kafka.connect.source.SourceConnector").write_text("CountingSource\n")
    plugin = PEERS / "conformance" / "connect-plugins" / "counting"
    plugin.parent.mkdir(exist_ok=True)
    if not plugin.is_symlink():
        plugin.symlink_to(classes)
    return plugin.parent


def connect_worker(properties: Path) -> list[str]:
    """Returns the command of a worker of Kafka Connect, a JVM of its own."""
    return [
        *java_command(),
        "-cp",
        kafka_classpath(),
        "org.apache.kafka.connect.cli.ConnectDistributed",
        str(properties),
    ]


def _compiled(folder: str, libraries: str) -> str:
    """Compiles the Java sources of a folder beside the conformance tests; returns the class path."""
    javac = tool("javac", "a JDK (Debian: default-jdk-headless)")
    sources = sorted((HERE / folder).glob("*.java"))
    with lock(f"{folder}-driver"):
        classes = PEERS / "conformance" / folder
        stamp = classes / "sources.sha256"
        want = _fingerprint(sources) + libraries
        if not stamp.exists() or stamp.read_text() != want:
            shutil.rmtree(classes, ignore_errors=True)
            classes.mkdir(parents=True)
            command = [javac, "-nowarn", "-d", str(classes), "-cp", libraries]
            _run([*command, *map(str, sources)], HERE)
            stamp.write_text(want)
    return f"{classes}:{libraries}"


def java_command() -> list[str]:
    """Returns `java` with the flags of a short-lived program: first compiler tier, one collector thread, silent log."""
    java = tool("java", "a JDK (Debian: default-jdk-headless)")
    logging = f"-Dlog4j2.configurationFile={HERE / 'java' / 'log4j2.properties'}"
    return [java, *SHORT_LIVED, logging]


def archive_of(kind: str) -> Path:
    """Returns where the archive of classes of this kind of JVM is, once it is made."""
    java = Path(tool("java", "a JDK (Debian: default-jdk-headless)")).resolve()
    name = hashlib.sha256(f"{java} {kafka_classpath()}".encode()).hexdigest()[:12]
    return PEERS / "conformance" / f"{kind}-{name}.jsa"


@contextmanager
def class_archive(kind: str = "classes") -> Iterator[list[str]]:
    """Options of a JVM with Kafka's class path: it starts from an archive of loaded classes, or leaves one at its end.

    Loading and checking classes is half of what a command-line tool costs. A JVM that the archive does not fit starts
    without it.
    """
    quiet = [
        "-Xlog:disable",
        "-Xlog:all=error:stderr",
    ]  # it would print omitted classes on standard output
    archive = archive_of(kind)
    if not archive.exists():
        with lock(f"{kind}-archive"):
            if not archive.exists():
                archive.parent.mkdir(parents=True, exist_ok=True)
                part = archive.with_suffix(".part")
                yield [f"-XX:ArchiveClassesAtExit={part}", *quiet]
                if part.exists():
                    part.rename(archive)
                return
    yield [f"-XX:SharedArchiveFile={archive}", *quiet]


def go_driver() -> Path:
    """Returns the Go driver (franz-go and sarama), built once; with Go's build cache later builds only check files."""
    go = tool("go", "Go 1.26 or newer")
    source = HERE / "go"
    binary = PEERS / "conformance" / "go-driver"
    with lock("go-driver"):
        binary.parent.mkdir(parents=True, exist_ok=True)
        stamp = binary.with_suffix(".sha256")
        want = _fingerprint([*source.glob("*.go"), source / "go.mod", source / "go.sum"])
        if not binary.exists() or not stamp.exists() or stamp.read_text() != want:
            _run([go, "build", "-trimpath", "-o", str(binary), "."], source)
            stamp.write_text(want)
    return binary


def node_driver() -> list[str]:
    """Returns the command that starts the Node driver (KafkaJS), with its packages."""
    node_packages(HERE / "node")
    return [tool("node", "Node.js 18 or newer"), str(HERE / "node" / "driver.mjs")]


def node_packages(source: Path) -> Path:
    """Installs the packages of a checked-in lock file; returns the folder that has them."""
    npm = tool("npm", "npm")
    with lock(f"node-{source.name}"):
        stamp = source / "node_modules" / ".installed.sha256"
        want = _fingerprint([source / "package.json", source / "package-lock.json"])
        if not stamp.exists() or stamp.read_text() != want:
            _run([npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"], source)
            stamp.write_text(want)
    return stamp.parent
