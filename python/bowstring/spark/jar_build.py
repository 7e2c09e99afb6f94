"""Builds the jar of the columnar Spark engine from its Java sources, with javac and Spark's own jars.

setup.py loads this file by its path, before the package `bowstring` exists, so it must not import other
modules of it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parent / "java"
JAVA_VERSION_MIN = 17
# The excluded lints concern Spark's own jars: manifests with missing jars, and missing annotations.
OPTIONS = ["--release", "17", "-encoding", "UTF-8", "-g", "-proc:none", "-Xlint:all,-path,-classfile"]
# The jar contains the digest of its sources: it is current if the digest matches.
DIGEST_ENTRY = "META-INF/bowstring-sources.sha256"


class JarBuildError(Exception):
    """javac refused the sources; the message has its output."""


def version() -> str:
    """The version of this package, which the jar sends to brokers; read from the source."""
    source = Path(__file__).parents[1] / "version.py"
    found = re.search(r'^__version__ = "(.+)"$', source.read_text(encoding="utf-8"), re.M)
    if found is None:
        raise JarBuildError(f"{source} has no line __version__ = ...")
    return found[1]


def sources_digest(sources: Path = SOURCES) -> str:
    """Returns the digest of the sources in a folder, compiler options and version, in hexadecimal."""
    digest = hashlib.sha256("\n".join([*OPTIONS, version()]).encode())
    for source in sorted(sources.rglob("*.java")):
        content = source.read_bytes()
        digest.update(f"{source.relative_to(sources).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def built_from(jar: Path) -> str | None:
    """Returns the digest of the sources of a jar; None if the jar is missing or broken."""
    try:
        with zipfile.ZipFile(jar) as opened:
            return opened.read(DIGEST_ENTRY).decode()
    except (OSError, KeyError, zipfile.BadZipFile):
        return None


def spark_version(libraries: Path) -> str | None:
    """Returns the version of the Spark jars in a folder; None if there are none."""
    names = [path.name for path in libraries.glob("spark-core_*.jar")]
    found = re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", names[0]) if len(names) == 1 else None
    return found[1] if found else None


def find_javac() -> str | None:
    """Finds a javac that can compile the sources: in JAVA_HOME, on PATH, or beside the java on PATH."""
    return next((each for each in _candidates() if _is_new_enough(each)), None)


def _candidates() -> Iterator[str]:
    if home := os.environ.get("JAVA_HOME"):
        yield str(Path(home, "bin", "javac"))
    if found := shutil.which("javac"):
        yield found
    if java := shutil.which("java"):
        yield str(Path(java).resolve().with_name("javac"))


def _is_new_enough(javac: str) -> bool:
    try:
        ran = subprocess.run([javac, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = re.match(r"javac (\d+)", ran.stdout + ran.stderr)
    return version is not None and int(version[1]) >= JAVA_VERSION_MIN


def build(jar: Path, libraries: Path, javac: str, sources: Path = SOURCES) -> str:
    """Builds the jar atomically; the same sources give the same bytes.

    Returns:
        The warnings of javac.

    Raises:
        JarBuildError: the sources do not compile against the jars in `libraries`.
    """
    files = [str(path) for path in sorted(sources.rglob("*.java"))]
    with tempfile.TemporaryDirectory(prefix="bowstring-jar-") as folder:
        command = [javac, *OPTIONS, "-cp", f"{libraries}/*", "-d", folder, *files]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise JarBuildError(ran.stdout + ran.stderr)
        _write(jar, Path(folder), sources_digest(sources))
    return ran.stdout + ran.stderr


def _write(jar: Path, classes: Path, digest: str) -> None:
    manifest = f"Manifest-Version: 1.0\r\nImplementation-Version: {version()}\r\n\r\n"
    entries = {"META-INF/MANIFEST.MF": manifest.encode(), DIGEST_ENTRY: digest.encode()}
    for path in sorted(classes.rglob("*.class")):
        entries[path.relative_to(classes).as_posix()] = path.read_bytes()
    jar.parent.mkdir(parents=True, exist_ok=True)
    # Write beside the target, then rename: a JVM that has the old jar open keeps it complete.
    handle, partial = tempfile.mkstemp(prefix=f".{jar.name}.", dir=jar.parent)
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as opened:
            for name, content in entries.items():
                entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                opened.writestr(entry, content)
        # mkstemp makes it readable by the owner only; an installed jar must be readable by all users.
        os.chmod(partial, 0o644)
        os.replace(partial, jar)
    except BaseException:
        os.unlink(partial)
        raise
