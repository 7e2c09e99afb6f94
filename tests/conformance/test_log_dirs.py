"""Several log directories as Kafka's own tool sees them, before and after a move by our CLI."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bowstring import Broker
from bowstring.clients.admin.admin import Admin
from bowstring.clients.producer.producer import Producer
from tests.support.embedded import engine_of
from tests.support.java_tools import TOOLS, java_tool
from tests.support.waiting import HANG_S, wait_until

RECORDS = 2000


@pytest.fixture
def broker(tmp_path: Path):
    with Broker(data_dir=tmp_path, config={"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}) as running:
        yield running


def replicas(admin: Admin) -> dict[str, tuple[str, bool]]:
    (directories,) = admin.describe_log_dirs().values()
    return {
        f"{partition.topic}-{partition.partition}": (each.path.rpartition("/")[2], size.is_future)
        for each in directories
        for partition, size in each.replicas.items()
    }


def test_kafka_sees_where_partitions_are_and_were_moved_to(broker: Broker, tmp_path: Path) -> None:
    at = ["--bootstrap-server", broker.bootstrap_servers]
    with Admin(broker.bootstrap_servers) as admin, Producer(broker.bootstrap_servers) as producer:
        admin.create_topic("t", 2)
        for i in range(RECORDS):
            producer.send("t", value=b"%d" % i, partition=i % 2)
        producer.flush()
        assert {home for home, _ in replicas(admin).values()} == {"a", "b"}
        described = json.loads(java_tool(f"{TOOLS}.LogDirsCommand", *at, "--describe").splitlines()[-1])
        (node,) = described["brokers"]
        assert [each["error"] for each in node["logDirs"]] == [None, None]
        assert {each["logDir"] for each in node["logDirs"]} == {f"{tmp_path}/a", f"{tmp_path}/b"}
        command = ["topics", "move", "t", "--to", f"{tmp_path}/b", "-b", broker.bootstrap_servers, "--json"]
        moved = subprocess.run(
            [sys.executable, "-m", "bowstring", *command],
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=True,
        )
        assert [each["moved"] for each in json.loads(moved.stdout)] == [True, True]
        found = json.loads(java_tool(f"{TOOLS}.LogDirsCommand", *at, "--describe").splitlines()[-1])
        (node,) = found["brokers"]
        homes = {each["logDir"]: each["partitions"] for each in node["logDirs"]}
        assert homes[f"{tmp_path}/a"] == []
        facts = {each["partition"]: (each["offsetLag"], each["isFuture"]) for each in homes[f"{tmp_path}/b"]}
        assert facts == {"t-0": (0, False), "t-1": (0, False)}
        wait_until(lambda: set(replicas(admin).values()) == {("b", False)}, "it has moved")
        for index in range(2):
            log = engine_of(broker).logs.get("t", index)
            assert log is not None and log.log_end_offset == RECORDS // 2
            assert log.directory == str(tmp_path / "b" / f"t-{index}")
