"""A realm of Kerberos with a KDC of its own on the loopback interface."""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.kerberos_packages import Kerberos, kerberos
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, wait_until

REALM = "BOWSTRING.TEST"
FOREIGN = "FOREIGN.TEST"
SERVICE = "kafka/localhost"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"

_KRB5 = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
default_ccache_name = FILE:{folder}/no-tickets
default_keytab_name = FILE:{folder}/none.keytab
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
{foreign} = {{
  kdc = 127.0.0.1:{port}
}}
SILENT.TEST = {{
  kdc = 127.0.0.1:{silent}
}}
[domain_realm]
localhost = {realm}
[dbmodules]
db_module_dir = {modules}
"""
_KDC = """\
[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  max_renewable_life = 1d
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
}}
{foreign} = {{
  database_name = {folder}/foreign
  key_stash_file = {folder}/foreign-stash
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
}}
[logging]
kdc = FILE:{folder}/kdc.log
"""


class Realm:
    """Files and programs of the realm REALM.

    Attributes:
        folder: Has krb5.conf, and the keytabs.
        site: Folder with the package gssapi.
    """

    def __init__(self, folder: Path, packages: Kerberos) -> None:
        self.folder = folder
        self.site = str(packages.site)
        self._packages = packages
        self._port = steady_port()
        facts = {
            "realm": REALM,
            "foreign": FOREIGN,
            "folder": folder,
            "port": self._port,
            "silent": steady_port(),
            "modules": packages.libraries / "krb5/plugins/kdb",
        }
        (folder / "krb5.conf").write_text(_KRB5.format(**facts))
        (folder / "kdc.conf").write_text(_KDC.format(**facts))

    @property
    def environment(self) -> dict[str, str]:
        """What programs of this realm need."""
        return {
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5RCACHENAME": f"file2:{self.folder}/replays",
        }

    def _run(self, program: str, *arguments: str, text: str = "") -> None:
        done = subprocess.run(
            [self._packages.program(program), *arguments],
            input=text,
            env=self._of_programs(),
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert done.returncode == 0 and "while" not in done.stderr, f"{program}: {done.stdout}\n{done.stderr}"

    def _of_programs(self) -> dict[str, str]:
        paths = {"LD_LIBRARY_PATH": str(self._packages.libraries)}
        return os.environ | self.environment | paths | {"KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def start(self, principals: Sequence[str], gone: Sequence[str]) -> subprocess.Popen[bytes]:
        """Creates principals, each with a keytab, deletes those of `gone` again, and starts the KDC."""
        trust = [f"addprinc -pw shared krbtgt/{REALM}@{FOREIGN}"]
        for name in (REALM, FOREIGN):
            self._run("kdb5_util", "create", "-s", "-P", "master", "-r", name)
            own = [each for each in (*principals, *gone) if each.endswith(f"@{name}")]
            commands = [f"addprinc -randkey {each}" for each in own]
            commands += [f"ktadd -k {self.keytab(each)} {each}" for each in own]
            commands += [f"delprinc -force {each}" for each in own if each in gone]
            self._run("kadmin.local", "-r", name, text="\n".join([*trust, *commands]) + "\n")
        command = [self._packages.program("krb5kdc"), "-n", "-r", REALM, "-r", FOREIGN]
        with (self.folder / "kdc.out").open("wb") as output:
            process = subprocess.Popen(command, env=self._of_programs(), stdout=output, stderr=output)
        log = self.folder / "kdc.log"
        wait_until(
            lambda: process.poll() is not None or (log.exists() and "commencing operation" in log.read_text())
        )
        assert process.poll() is None, (self.folder / "kdc.out").read_text()
        return process

    def keytab(self, principal: str) -> str:
        """Returns the path of a principal's keytab."""
        return str(self.folder / f"{principal.partition('@')[0].replace('/', '-')}.keytab")

    def change_key(self, principal: str) -> None:
        """Gives a principal a new key, which its keytab has beside the old one."""
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {self.keytab(principal)} {principal}")

    def tickets(self, principal: str, name: str, *, expired: bool = False) -> str:
        """Returns the path of a ticket cache with new tickets of a principal, or with such as have expired."""
        path = self.folder / f"{name}.cache"
        self._run("kinit", "-k", "-t", self.keytab(principal), "-c", f"FILE:{path}", principal)
        if expired:
            path.write_bytes(_aged(path.read_bytes()))
        return str(path)

    def jaas(self, principal: str, **options: str) -> str:
        """Returns the JAAS line of a principal with its keytab."""
        given = {
            "useKeyTab": "true",
            "storeKey": "true",
            "keyTab": self.keytab(principal),
            "principal": principal,
        }
        shown = " ".join(f'{name}="{value}"' for name, value in (given | options).items())
        return f"{MODULE} required {shown};"


def _aged(cache: bytes) -> bytes:
    """Moves the times of a ticket cache's tickets into the past: start, end and the end of renewals."""
    now = int(time.time())
    for at in range(len(cache) - 16):
        asked, starts, ends, renews = struct.unpack_from(">4I", cache, at)
        if abs(asked - now) < 600 and abs(starts - now) < 600 and 600 < ends - now < 10 * 86_400:
            past = struct.pack(">4I", asked - 86_400, starts - 86_400, now - 3_600, min(renews, now - 3_600))
            cache = cache[:at] + past + cache[at + 16 :]
    return cache


def _named(principal: str) -> str:
    return principal if "@" in principal else f"{principal}@{REALM}"


@contextmanager
def realm(folder: Path, *principals: str, gone: Sequence[str] = ()) -> Iterator[Realm]:
    """Runs a realm that has these principals, and beside it FOREIGN, whose principals it trusts.

    This process and those that it starts use it, too; the package gssapi is there meanwhile.

    Args:
        principals: Those without a realm are of REALM.
        gone: Principals of which there are keytabs only.

    Raises:
        NoPackagesError: Debian's packages cannot be had here.
    """
    packages = kerberos()
    found = Realm(folder, packages)
    process = found.start([_named(each) for each in principals], [_named(each) for each in gone])
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(found.site)
            patch.setenv("PYTHONPATH", found.site, prepend=os.pathsep)
            for name, value in found.environment.items():
                patch.setenv(name, value)
            patch.delenv("KRB5CCNAME", raising=False)
            yield found
    finally:
        process.terminate()
        process.wait(HANG_S)
