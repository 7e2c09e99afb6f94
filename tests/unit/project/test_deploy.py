"""The systemd unit and the container's recipe: known directives, commands the broker understands, and the tools where
they are there.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bowstring
from bowstring.serve_options import parser
from deploy import wheels
from tests.support.waiting import HANG_S

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
UNIT = DEPLOY / "bowstring.service"
RECIPE = DEPLOY / "Containerfile"
EXPOSURE_MAX = 2.0

KNOWN = {
    "Unit": "Description After Wants StartLimitIntervalSec StartLimitBurst",
    "Service": (
        "Type User Group ExecStart StateDirectory StateDirectoryMode ConfigurationDirectory UMask KillMode KillSignal "
        "TimeoutStartSec TimeoutStopSec Restart RestartSec LimitNOFILE NoNewPrivileges CapabilityBoundingSet AmbientCapabilities "
        "ProtectSystem ProtectHome PrivateTmp PrivateDevices ProtectClock ProtectControlGroups ProtectHostname "
        "ProtectKernelLogs ProtectKernelModules ProtectKernelTunables ProtectProc RemoveIPC RestrictAddressFamilies "
        "RestrictNamespaces RestrictRealtime RestrictSUIDSGID LockPersonality MemoryDenyWriteExecute "
        "SystemCallArchitectures SystemCallFilter SystemCallErrorNumber"
    ),
    "Install": "WantedBy",
}
MAY_REPEAT = {"SystemCallFilter"}


def unit() -> dict[str, dict[str, list[str]]]:
    """Values by section and directive."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for number, line in enumerate(UNIT.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = heading[1]
            continue
        name, equals, value = line.partition("=")
        assert equals and section and name in KNOWN[section].split(), f"line {number}: {line}"
        found.setdefault(section, {}).setdefault(name, []).append(value)
    return found


def test_the_unit_has_known_directives_once():
    sections = unit()
    assert set(sections) == set(KNOWN)
    for directives in sections.values():
        for name, values in directives.items():
            assert len(values) == 1 or name in MAY_REPEAT, name


def test_the_unit_starts_a_broker_and_lets_it_end():
    service = unit()["Service"]
    command, subcommand, *options = shlex.split(service["ExecStart"][0])
    assert Path(command).name == "bowstring" and subcommand == "serve"
    arguments = parser().parse_args(options)
    assert arguments.data == [f"/var/lib/{service['StateDirectory'][0]}"]
    assert arguments.config == f"/etc/{service['ConfigurationDirectory'][0]}/server.properties"
    page = (DEPLOY.parent / "docs/how-to/systemd.md").read_text()
    assert f" {arguments.config}\n" in page, "the page says where the settings are"
    assert service["Type"] == ["notify"], "the broker tells systemd when it serves"
    assert service["KillSignal"] == ["SIGTERM"] and service["Restart"] == ["on-failure"]
    assert int(service["LimitNOFILE"][0]) >= 100_000


def test_the_units_protection():
    service = unit()["Service"]
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "MemoryDenyWriteExecute"):
        assert service[name] == ["yes"]
    assert service["ProtectSystem"] == ["strict"] and service["CapabilityBoundingSet"] == [""]
    assert service["User"] == ["bowstring"]
    families = service["RestrictAddressFamilies"][0].split()
    assert set(families) == {"AF_INET", "AF_INET6", "AF_UNIX"}, "clients by TCP, local reads by a Unix socket"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path):
    """With an existing command: systemd-analyze looks for it."""
    copy = tmp_path / UNIT.name
    (command,) = re.findall(r"^ExecStart=(\S+)", UNIT.read_text(), re.M)
    copy.write_text(UNIT.read_text().replace(f"ExecStart={command}", f"ExecStart={sys.executable}"))
    for arguments in (
        ["verify"],
        ["security", "--offline=true", f"--threshold={EXPOSURE_MAX * 10:.0f}", "--no-pager"],
    ):
        ran = subprocess.run(
            ["systemd-analyze", *arguments, str(copy)],
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr
        assert not [line for line in ran.stderr.splitlines() if UNIT.name in line], ran.stderr


def instructions() -> list[tuple[str, str]]:
    """Keyword and rest of each instruction, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", RECIPE.read_text(), flags=re.M)
    lines = [line.split(None, 1) for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]
    return [(keyword, rest) for keyword, rest in lines]


def one(keyword: str) -> str:
    (rest,) = (rest for each, rest in instructions() if each == keyword)
    return rest


def test_the_recipe_has_known_instructions():
    order = [keyword for keyword, _ in instructions()]
    known = "ARG FROM COPY RUN USER WORKDIR VOLUME EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD"
    assert order[:2] == ["ARG", "FROM"] and not set(order) - set(known.split())
    image, _, tag = one("FROM").partition(":")
    assert image and tag not in ("", "latest") and "slim" in tag
    assert not [rest for keyword, rest in instructions() if keyword == "RUN" and "sudo" in rest]
    assert "--no-cache-dir" in one("RUN")


def test_the_image_is_rootless_and_keeps_its_data():
    assert one("USER").split(":")[0] not in ("0", "root") and f"--uid {one('USER').split(':')[0]} " in one(
        "RUN"
    )
    command = json.loads(one("ENTRYPOINT")) + json.loads(one("CMD"))
    assert command[:2] == ["bowstring", "serve"]
    arguments = parser().parse_args(command[2:])
    assert arguments.data == [one("VOLUME")] == [one("WORKDIR")]
    assert arguments.listen_unauthenticated, "it is reached from outside of the container"
    assert one("EXPOSE").split() == ["9092", str(arguments.metrics_port)]
    assert one("STOPSIGNAL") == "SIGTERM"


def test_the_healthcheck_is_what_the_broker_answers():
    """Also where the broker advertises an address that does not lead to it from inside of the container."""
    _, _, command = one("HEALTHCHECK").partition("CMD ")
    python, dash, code = json.loads(command)
    assert (python, dash) == ("python", "-c") and "'127.0.0.1:9092'" in code
    with bowstring.Broker() as reached:
        servers = reached.bootstrap_servers
        ran = subprocess.run(
            [sys.executable, "-c", code.replace("127.0.0.1:9092", servers)], timeout=HANG_S, check=False
        )
        assert ran.returncode == 0
    ran = subprocess.run(
        [sys.executable, "-c", code.replace("127.0.0.1:9092", servers)],
        capture_output=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode != 0


def test_the_recipe_takes_the_wheel_where_make_leaves_it():
    """For the Python of its base image. Nothing else of the tree is sent to the builder."""
    version, wheel = (rest.partition("=")[2] for keyword, rest in instructions() if keyword == "ARG")
    tag = f"cp{version.replace('.', '')}"
    folder = wheels.OUTPUT.relative_to(DEPLOY.parent).as_posix()
    assert version in wheels.VERSIONS and wheel == f"{folder}/bowstring-*-{tag}-{tag}-*.whl"
    assert (DEPLOY / "Containerfile.dockerignore").read_text().split() == ["*", f"!{folder}/*.whl"]


def test_the_page_says_what_the_recipe_does():
    page = (DEPLOY.parent / "docs/how-to/container.md").read_text()
    assert f"--volume bowstring:{one('VOLUME')} bowstring\n" in page
    assert json.loads(one("CMD"))[1].partition("=")[2] in page
