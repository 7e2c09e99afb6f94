"""Power cuts under real clients on ext4 and xfs: acknowledged records stay, and every partition can be read.

The scenario is the package power_cut. It needs to mount an image of a file system: as root, with loop devices. `make soak`
lets it run for BOWSTRING_SOAK_SECONDS on each file system, BOWSTRING_SEED chooses other moments.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import FOR_EVER_S, HANG_S

SECONDS = float(os.environ.get("BOWSTRING_SOAK_SECONDS", "0"))
SEED = os.environ.get("BOWSTRING_SEED", "1")
ROOT = Path(__file__).resolve().parents[2]


def why_not(kind: str, directory: Path) -> str | None:
    """Why no file system of this kind can be mounted here."""
    for tool in (f"mkfs.{kind}", "mount", "unshare"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    image, mount = directory / "probe.img", directory / "probe"
    mount.mkdir()
    with open(image, "wb") as file:
        file.truncate(512 << 20)
    try:
        for command in (
            [f"mkfs.{kind}", "-q", str(image)],
            ["unshare", "--mount", "mount", "-o", "loop", str(image), str(mount)],
        ):
            ran = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
            if ran.returncode != 0:
                return f"{' '.join(command[:3])} fails: {ran.stderr.strip()}"
    finally:
        image.unlink()
    return None


@pytest.mark.timeout(SECONDS + FOR_EVER_S + HANG_S)
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_nothing_acknowledged_is_lost(kind, tmp_path):
    if (reason := why_not(kind, tmp_path)) is not None:
        pytest.skip(f"power cuts on {kind} are not tested: {reason}")
    scenario = ["-m", "tests.system.power_cut", "--fs", kind, "--seed", SEED, "--cuts", "2"]
    ran = subprocess.run(
        ["unshare", "--mount", sys.executable, *scenario, "--seconds", str(SECONDS), str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS + FOR_EVER_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    print(ran.stdout)
