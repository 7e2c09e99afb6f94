"""A headless Chromium of Debian below .peers/, driven by Playwright; nothing is installed, and root is not needed."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.support.debian_packages import unpack
from tests.support.peers import PEERS, ROOT, lock, node_packages

# chromium-common has the tables of ICU. The fonts are always the unpacked ones: pictures look alike on every machine.
PACKAGES = ("chromium-headless-shell", "chromium-common", "fonts-dejavu-core")
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{root}/usr/share/fonts</dir>
  <cachedir>{root}/fonts-cache</cachedir>
  <alias binding="same"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <alias binding="same"><family>serif</family><prefer><family>DejaVu Serif</family></prefer></alias>
  <alias binding="same"><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias binding="same"><family>system-ui</family><prefer><family>DejaVu Sans</family></prefer></alias>
</fontconfig>
"""


@dataclass(frozen=True)
class Chromium:
    """The unpacked browser.

    Attributes:
        root: Where its packages are unpacked.
    """

    root: Path

    @property
    def program(self) -> Path:
        """The browser's binary."""
        return self.root / "usr/lib/chromium/chromium-headless-shell"

    @property
    def environment(self) -> dict[str, str]:
        """Where its libraries and fonts are."""
        folders = {path.parent for path in self.root.glob("usr/lib/*-linux-gnu/**/*.so*")}
        libraries = sorted(folders, key=lambda folder: len(folder.parts))
        return {
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
            "FONTCONFIG_FILE": str(self.root / "fonts.conf"),
        }


def chromium() -> Chromium:
    """Returns the browser, unpacked once.

    Raises:
        NoPackagesError: Debian's packages cannot be had here.
    """
    name = hashlib.sha256(f"{PACKAGES} {FONTS} {platform.machine()}".encode()).hexdigest()[:12]
    folder = PEERS / f"chromium-{name}"
    with lock("chromium"):
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            root = unpack(PACKAGES, folder, dependencies=True)
            (root / "fonts.conf").write_text(FONTS.format(root=root))
            (folder / "done").touch()
    return Chromium(folder / "root")


@contextmanager
def browser() -> Iterator[Browser]:
    """Runs the browser.

    Raises:
        NoPackagesError: Debian's packages cannot be had here.
    """
    found = chromium()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=found.program, env={**os.environ, **found.environment}, chromium_sandbox=False
        )
        try:
            yield running
        finally:
            running.close()


def axe() -> str:
    """Returns the script of axe-core, whose rules check a page against WCAG."""
    return (node_packages(ROOT / "tests/system/console") / "axe-core" / "axe.min.js").read_text()
