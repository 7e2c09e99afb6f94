"""Dashboards and alert rules of the package, with a real Prometheus that scrapes real brokers."""

import json
import re
import subprocess
import sys
import time
import urllib.request
import xml.etree.ElementTree as ElementTree
from contextlib import contextmanager

import matplotlib
import pytest

import bowstring
from bowstring.monitoring import monitoring_files
from tests.support.access import STANDARD
from tests.support.debian_packages import NoPackagesError
from tests.support.pages import DOCS, ROOT
from tests.support.prometheus import prometheus, running_prometheus
from tests.support.secured_nodes import key_files
from tests.support.serving import Process, steady_port
from tests.support.waiting import HANG_S, wait_until

matplotlib.use("svg")
from matplotlib import pyplot

DASHBOARDS = [path for path in monitoring_files() if path.suffix == ".json"]
(RULES,) = (path for path in monitoring_files() if path.suffix == ".yml")
# The dashboards as they were drawn, kept for review.
PICTURES = ROOT / "build" / "dashboards"
# Panels that are empty while all is well: nothing has failed, or nobody does what they show.
EMPTY = {"Errors", "Slow operations of the disks", "Failed log directories"}


@pytest.fixture(scope="module")
def programs():
    try:
        return prometheus()
    except NoPackagesError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def server(programs, tmp_path_factory):
    """Prometheus beside a node of a cluster, a broker with TLS and an authorizer, both at work, and an audit of
    counts.
    """
    folder = tmp_path_factory.mktemp("monitoring")
    ports = [steady_port(), steady_port(), steady_port()]
    config = {"bowstring.metrics.port": ports[0], "group.initial.rebalance.delay.ms": 0}
    settings = key_files(folder) | {
        "listeners": "PLAIN://127.0.0.1:0,TLS://127.0.0.1:0",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,TLS:SSL",
        "inter.broker.listener.name": "PLAIN",
        "authorizer.class.name": STANDARD,
        "super.users": "User:root",
        "allow.everyone.if.no.acl.found": "true",
        "bowstring.audit.topic": "audit",
        "bowstring.metrics.port": ports[1],
    }
    sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    secured = Process("--data", str(folder / "secured"), *sets)
    try:
        with bowstring.Cluster(1, node_config={1: config}, linked=False) as cluster:
            work(cluster.bootstrap_servers)
            be_denied(secured, folder)
            targets = [f"127.0.0.1:{port}" for port in ports]
            with (
                audited(cluster.bootstrap_servers, ports[2]),
                running_prometheus(folder, targets, RULES) as running,
            ):
                work(cluster.bootstrap_servers)
                yield running
    finally:
        secured.stop()


@contextmanager
def audited(servers, port):
    """Two tiers count the same records; `bowstring audit run` compares them."""
    hour_ago = time.time_ns() // 1_000_000 - 3_600_000
    for tier in ("app", "dc"):
        with bowstring.Producer(servers, audit=tier) as producer:
            producer.send("clicks", b"1", timestamp=hour_ago)
    command = [sys.executable, "-m", "bowstring", "audit", "run", "-b", servers]
    with subprocess.Popen([*command, "--metrics-port", str(port)]) as process:
        try:
            wait_until(lambda: has_caught_up(port), "the audit has not read the counts")
            yield
        finally:
            process.terminate()


def has_caught_up(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANG_S) as answer:
            return b"bowstring_audit_caught_up 1.0" in answer.read()
    except OSError:
        return False


def work(servers):
    with bowstring.Producer(servers) as producer:
        producer.send("orders", b"1").result(HANG_S)
    with bowstring.Consumer(servers, group_id="readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        assert consumer.poll(timeout=HANG_S)
        consumer.commit({bowstring.TopicPartition("orders", 0): 0})


def be_denied(process, folder):
    """Handshakes, a denial, and a quota that throttles."""
    plain, tls = (each.rpartition(":")[2] for each in process.facts["listeners"].split(","))
    servers = f"127.0.0.1:{plain}"
    alice = bowstring.AclBinding(
        bowstring.AclResourceType.TOPIC,
        "secret",
        bowstring.ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        bowstring.AclOperation.READ,
        bowstring.AclPermissionType.ALLOW,
    )
    with bowstring.Admin(servers) as admin:
        admin.create_topics([bowstring.NewTopic("secret")])
        admin.create_acls([alice])
        admin.alter_client_quotas({"client-id": "greedy"}, {"producer_byte_rate": 1e6})
    secure = {"security_protocol": "SSL", "ssl_cafile": str(folder / "trust.pem")}
    with bowstring.Producer(f"127.0.0.1:{tls}", client_id="greedy", **secure) as producer:
        producer.send("orders", b"1").result(HANG_S)
        with pytest.raises(bowstring.AuthorizationError):
            producer.send("secret", b"1").result(HANG_S)


def replaced(expression):
    """An expression of a panel as Grafana sends it."""
    return (
        expression.replace("$__rate_interval", "1m").replace("$job", "bowstring").replace("$instance", ".*")
    )


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_shows_what_real_scrapes_have(server, path):
    panels = json.loads(path.read_text())["panels"]
    places = [tuple(panel["gridPos"][side] for side in "xy") for panel in panels]
    assert len(set(places)) == len(places)
    end = float(server.get("query", query="time()")["result"][1])
    figure, axes = pyplot.subplots((len(panels) + 2) // 3, 3, figsize=(18, len(panels)), squeeze=False)
    empty = set()
    for panel, axis in zip(panels, axes.flat, strict=False):
        axis.set_title(panel["title"], fontsize=9)
        lines = 0
        for target in panel["targets"]:
            query = replaced(target["expr"])
            found = server.get("query_range", query=query, start=end - 30, end=end, step=1)["result"]
            lines += len(found)
            for series in found:
                label = "{{" in target["legendFormat"] and " ".join(series["metric"].values())
                axis.plot(
                    *zip(*((at, float(value)) for at, value in series["values"]), strict=True), label=label
                )
        if not lines:
            empty.add(panel["title"])
    PICTURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURES / f"{path.stem}.svg")
    pyplot.close(figure)
    assert empty <= EMPTY
    assert ElementTree.parse(PICTURES / f"{path.stem}.svg").getroot().tag.endswith("svg")


def test_rules_are_valid_and_quiet_while_all_is_well(server, programs):
    checked = subprocess.run(
        [str(programs / "promtool"), "check", "rules", str(RULES)],
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert checked.returncode == 0, checked.stderr
    rules = server.get("rules")["groups"][0]["rules"]
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, rules
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
    used = {name for rule in rules for name in re.findall(r"\bbowstring_[a-z_]+", rule["query"])}
    assert len(used) > 10 and used <= set(server.get("label/__name__/values"))


def test_the_page_lists_the_rules():
    page = (DOCS / "how-to" / "monitoring.md").read_text()
    names = re.findall(r"alert: (\w+)", RULES.read_text())
    assert re.findall(r"^\| `(Bowstring\w+)` \|", page, re.M) == names


def test_the_command_writes_the_files(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bowstring", "monitoring", str(tmp_path / "new")], check=True, timeout=HANG_S
    )
    assert done.returncode == 0
    written = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert written == {path.name: path.read_bytes() for path in monitoring_files()}
