"""Finds the jar of the columnar engine in the installation, or builds it once into the user's cache.

A wheel contains the jar if it was built where PySpark and a JDK are installed. pip's isolated builds have no
PySpark, and should not download its 450 MB. So the package also installs the Java sources, and the first
session compiles them against its Spark, which takes some seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bowstring.clients.errors import ClientError
from bowstring.spark import jar_build

JAR = Path(__file__).parent / "jars" / "bowstring-spark.jar"
log = logging.getLogger("bowstring.spark")


class JarMissingError(ClientError):
    """The columnar engine's jar is missing in this installation and cannot be built."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "bowstring was installed without the jar of its columnar Spark engine, and cannot build it: "
            + reason
        )


def jar_path() -> Path:
    """Returns the path of the columnar engine's jar, for `spark.jars`, `ADD JAR` or `spark-submit --jars`.

    If the installation has none, builds it once for each version of this package and of Spark, into
    `$XDG_CACHE_HOME/bowstring` (by default `~/.cache/bowstring`), and prints that on standard error.

    Raises:
        JarMissingError: there is no JDK, no Spark, or no writable directory; the message says what to do.
    """
    digest = jar_build.sources_digest()
    # A jar of older sources may be left over.
    return JAR if jar_build.built_from(JAR) == digest else _cached(digest)


def _cached(digest: str) -> Path:
    libraries = _spark_jars()
    name = f"bowstring-spark-{digest[:12]}-spark-{jar_build.spark_version(libraries)}.jar"
    for folder in _folders():
        if jar_build.built_from(folder / name) == digest:
            return folder / name
    javac = jar_build.find_javac()
    if javac is None:
        raise JarMissingError(
            f"there is no javac of version {jar_build.JAVA_VERSION_MIN} or newer in JAVA_HOME, on PATH or "
            "beside the java on PATH. Install a JDK (Debian: apt-get install default-jdk-headless), or set "
            "JAVA_HOME to one, and try again"
        )
    folder = _writable_folder()
    with _alone(folder):
        # Another process may have built it meanwhile.
        if jar_build.built_from(folder / name) != digest:
            print(
                f"bowstring: compiling its Spark engine, once, into {folder / name}",
                file=sys.stderr,
                flush=True,
            )
            _build(folder / name, libraries, javac)
    return folder / name


def _build(jar: Path, libraries: Path, javac: str) -> None:
    try:
        jar_build.build(jar, libraries, javac)
    except jar_build.JarBuildError as error:
        first = str(error).strip().partition("\n")[0]
        raise JarMissingError(
            f"{javac} does not compile it against Spark {jar_build.spark_version(libraries)} in {libraries} "
            f"({first}). The columnar engine needs the Spark that pip install 'bowstring[spark]' installs"
        ) from error
    except OSError as error:
        raise JarMissingError(
            f"{error}. Set XDG_CACHE_HOME to a writable directory with free space"
        ) from error


def _spark_jars() -> Path:
    """Returns the jars of the Spark that will run: that of SPARK_HOME, else PySpark's own."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        try:
            import pyspark
        except ImportError:
            raise JarMissingError(
                "it must be compiled against Spark, which is not installed. pip install "
                "'bowstring[spark]', or set SPARK_HOME to Spark"
            ) from None
        home = str(Path(pyspark.__file__).parent)
    libraries = Path(home, "jars")
    if jar_build.spark_version(libraries) is None:
        raise JarMissingError(
            f"it must be compiled against Spark's jars, and {libraries} has none. Set SPARK_HOME to Spark, "
            "or unset it and pip install 'bowstring[spark]'"
        )
    return libraries


def _folders() -> list[Path]:
    """Returns the possible directories of the jar, the best first; the second is for users without a writable
    home.
    """
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    own = Path(tempfile.gettempdir(), f"bowstring-{os.getuid()}")
    return [Path(caches, "bowstring"), *([own] if _is_private(own) else [])]


def _writable_folder() -> Path:
    first = _folders()[0]
    own = Path(tempfile.gettempdir(), f"bowstring-{os.getuid()}")
    with contextlib.suppress(OSError):
        first.mkdir(parents=True, exist_ok=True)
        if os.access(first, os.W_OK):
            return first
    with contextlib.suppress(OSError):
        own.mkdir(mode=0o700, exist_ok=True)
        if _is_private(own) and os.access(own, os.W_OK):
            return own
    raise JarMissingError(
        f"neither {first} nor {own} is writable. Set XDG_CACHE_HOME to a writable directory"
    )


def _is_private(folder: Path) -> bool:
    """Returns whether only this user can write there, because the jar's code runs with this user's rights."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Locks the folder for one process if the file system has locks; otherwise each process builds, and the
    last jar stays.
    """
    with (folder / ".bowstring-spark.lock").open("w") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
