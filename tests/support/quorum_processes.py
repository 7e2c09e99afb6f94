"""Controllers in processes of their own, formatted and started by the command line."""

import signal
import subprocess
import sys
from pathlib import Path

from bowstring.protocol.ids import format_uuid
from bowstring.protocol.messages import describe_quorum as dq
from tests.support.quorum_nodes import CLUSTER_ID, FAST
from tests.support.serving import Process, steady_port
from tests.support.waiting import HANG_S, wait_until
from tests.support.wire_client import WireClient


def run_format(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `bowstring format`."""
    command = [sys.executable, "-m", "bowstring", "format", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)


def directory_id(id: int) -> str:
    return format_uuid(bytes([id]) * 16)


class QuorumOfProcesses:
    """Three controllers; with `dynamic`, their voters are in the log."""

    def __init__(self, directory: Path, ids: tuple[int, ...] = (1, 2, 3), *, dynamic: bool = False) -> None:
        self.directory = directory
        self.dynamic = dynamic
        self.ports: dict[int, int] = {}
        self.processes: dict[int, Process] = {}
        self.files: dict[int, Path] = {}
        for id in ids:
            self.ports[id] = steady_port()
        for id in ids:
            self.write_config(id)
            self.format(id)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def write_config(self, id: int, role: str = "controller", **more: str) -> Path:
        settings = {
            "node.id": str(id),
            "process.roles": role,
            "log.dirs": str(self.directory / str(id)),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports.get(id)}",
            **FAST,
            **more,
        }
        if self.dynamic:
            settings["controller.quorum.bootstrap.servers"] = self.bootstrap
        else:
            settings["controller.quorum.voters"] = ",".join(
                f"{each}@127.0.0.1:{port}" for each, port in self.ports.items()
            )
        path = self.directory / f"{id}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.files[id] = path
        return path

    def format(self, id: int, *options: str) -> None:
        if self.dynamic and not options:
            listed = ",".join(
                f"{each}@127.0.0.1:{port}:{directory_id(each)}" for each, port in self.ports.items()
            )
            options = ("--initial-controllers", listed)
        done = run_format("--config", str(self.files[id]), "--cluster-id", CLUSTER_ID, *options)
        assert done.returncode == 0, done.stderr

    def start(self, *ids: int) -> None:
        for id in ids or self.ports:
            self.processes[id] = Process("--config", str(self.files[id]))

    def kill(self, id: int) -> None:
        self.processes.pop(id).stop(signal.SIGKILL)

    def stop(self) -> None:
        for process in self.processes.values():
            if process.process.poll() is None:
                process.process.send_signal(signal.SIGCONT)
                process.process.send_signal(signal.SIGTERM)
        while self.processes:
            self.processes.popitem()[1].stop()

    # ------------------------------------------------------------ what they say

    def describe(self, id: int) -> dq.DescribeQuorumResponsePartitionData:
        """What a node says about the quorum."""
        topic = dq.DescribeQuorumRequestTopicData(
            topic_name="__cluster_metadata",
            partitions=[dq.DescribeQuorumRequestPartitionData(partition_index=0)],
        )
        client = WireClient(self.ports[id])
        try:
            return client.ask(dq.DescribeQuorumRequest(topics=[topic])).topics[0].partitions[0]
        finally:
            client.close()

    def leader(self, among: tuple[int, ...] = ()) -> dq.DescribeQuorumResponsePartitionData:
        """What the leader says, once there is one."""

        def found():
            for id in among or tuple(self.processes):
                said = self.describe(id)
                if said.error_code == 0 and said.high_watermark > 0:
                    return said
            return None

        return wait_until(found, "no leader")

    def wait_until_equal(self) -> None:
        """Waits until all voters have all of the log."""
        wait_until(
            lambda: len({voter.log_end_offset for voter in self.leader().current_voters}) == 1,
            lambda: self.leader(),
        )
