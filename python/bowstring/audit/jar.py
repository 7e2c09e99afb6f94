"""Builds the jar of the Java interceptors, once, into the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

from bowstring.clients.errors import ClientError
from bowstring.spark import jar_build

SOURCES = Path(__file__).parent / "java"


class AuditJarError(ClientError):
    """The jar of the Java interceptors cannot be built."""


def jar_path(kafka_libraries: Path | None = None, target: Path | None = None) -> Path:
    """Returns the path of the jar with `bowstring.audit.CountingProducerInterceptor` and
    `CountingConsumerInterceptor`; compiles it first where it is missing or of older sources.

    Args:
        kafka_libraries: folder with Kafka's jars, which it is compiled against; None for libs in KAFKA_HOME.
        target: file of the jar; None for one in `$XDG_CACHE_HOME/bowstring` (by default
            `~/.cache/bowstring`).

    Raises:
        AuditJarError: there is no JDK, or no jar of Kafka's clients; the message says what to do.
        OSError: the folder is not writable.
    """
    digest = jar_build.sources_digest(SOURCES)
    if target is None:
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        target = Path(caches, "bowstring", f"bowstring-audit-{digest[:12]}.jar")
    if jar_build.built_from(target) == digest:
        return target
    libraries = _kafka_libraries(kafka_libraries)
    javac = jar_build.find_javac()
    if javac is None:
        raise AuditJarError(
            f"there is no javac of version {jar_build.JAVA_VERSION_MIN} or newer in JAVA_HOME or on PATH. "
            "Install a JDK (Debian: apt-get install default-jdk-headless), or set JAVA_HOME to one"
        )
    try:
        jar_build.build(target, libraries, javac, SOURCES)
    except jar_build.JarBuildError as error:
        first = str(error).strip().partition("\n")[0]
        raise AuditJarError(
            f"{javac} does not compile the interceptors against {libraries} ({first}). Give the folder of "
            "Kafka's jars, version 3.0 or newer, with --kafka-libs"
        ) from error
    return target


def _kafka_libraries(given: Path | None) -> Path:
    home = os.environ.get("KAFKA_HOME")
    folder = given or (Path(home, "libs") if home else None)
    if folder is None or not list(folder.glob("kafka-clients-*.jar")):
        where = f"{folder} has no kafka-clients-*.jar" if folder else "KAFKA_HOME is not set"
        raise AuditJarError(
            f"the interceptors are compiled against Kafka's clients, and {where}. Give the folder of Kafka's "
            "jars with --kafka-libs, or set KAFKA_HOME"
        )
    return folder
