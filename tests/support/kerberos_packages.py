"""MIT Kerberos of Debian and the Python package gssapi, below .peers/: nothing is installed, and root is not needed.

What is missing on the machine is a reason to skip; a build that fails is not.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.debian_packages import unpack
from tests.support.peers import PEERS, MissingToolError, lock

GSSAPI = "gssapi==1.12.0"
PACKAGES = (
    *("krb5-kdc", "krb5-admin-server", "krb5-user", "libkrb5-dev", "krb5-multidev", "libkrb5-3"),
    *("libgssapi-krb5-2", "libk5crypto3", "libkrb5support0", "libkadm5srv-mit12", "libkadm5clnt-mit12"),
    *("libkdb5-10", "libgssrpc4", "libverto1", "libverto-libev1", "libev4", "libss2", "libcom-err2"),
    *("libkeyutils1", "comerr-dev"),
)


@dataclass(frozen=True)
class Kerberos:
    """The unpacked packages.

    Attributes:
        root: Where they are unpacked.
        site: Has the package gssapi, for sys.path.
    """

    root: Path
    site: Path

    @property
    def libraries(self) -> Path:
        """The folder of the shared libraries."""
        return next(self.root.glob("usr/lib/*-linux-gnu"))

    def program(self, name: str) -> str:
        """Returns the path of a program."""
        return str(
            next(path for folder in ("sbin", "bin") if (path := self.root / "usr" / folder / name).exists())
        )


def kerberos() -> Kerberos:
    """Returns the packages, unpacked and built once.

    Raises:
        NoPackagesError: They cannot be had.
    """
    name = hashlib.sha256(f"{GSSAPI} {PACKAGES} {sys.executable} {sys.version}".encode()).hexdigest()[:12]
    folder = PEERS / f"kerberos-{name}"
    found = Kerberos(folder / "root", folder / "site")
    with lock("kerberos"):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            unpack(PACKAGES, folder)
            _build(found)
            (folder / "done").touch()
    return found


def _build(found: Kerberos) -> None:
    """Builds gssapi, of which PyPI has no wheels for Linux, with the unpacked headers and libraries."""
    libraries = found.libraries
    # An rpath that the libraries' own dependencies follow, too: the machine's may be older, or missing.
    linking = f"-L{libraries} -L{libraries}/mit-krb5 -lgssapi_krb5 -Wl,--disable-new-dtags,-rpath,{libraries}"
    _run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation"),
            *("--no-binary", "gssapi", "--target", str(found.site), GSSAPI),
        ],
        LD_LIBRARY_PATH=str(libraries),
        GSSAPI_MAIN_LIB=str(libraries / "libgssapi_krb5.so.2"),
        GSSAPI_COMPILER_ARGS=f"-O0 -g0 -DHAS_GSSAPI_EXT_H -I{found.root}/usr/include",
        GSSAPI_LINKER_ARGS=linking,
    )


def _run(command: list[str], **environment: str) -> None:
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode != 0:
        raise MissingToolError(f"`{' '.join(command)}` exited with {done.returncode}:\n{done.stderr[-3000:]}")
