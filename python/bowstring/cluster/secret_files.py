"""Writes files with secrets: only their owner can read them."""

import os
import tempfile
from pathlib import Path


def write_secret(path: Path, data: bytes) -> None:
    """Writes a file that only its owner can read, in place of an older one. It is never there half, nor with
    another mode.
    """
    _write(path, data, 0o600)


def write_public(path: Path, data: bytes) -> None:
    """Writes a file that everyone may read, in place of an older one."""
    _write(path, data, 0o644)


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # or a power failure could leave an empty file
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
