"""Clusters of processes: nodes with both roles, or brokers beside controllers."""

from tests.support.quorum_processes import QuorumOfProcesses
from tests.support.serving import Process, steady_port


class Cluster(QuorumOfProcesses):
    """Nodes 1 to 3 with these roles; brokers listen at `broker_ports`."""

    def __init__(self, directory, roles="broker,controller"):
        self.roles = roles
        self.broker_ports = {id: steady_port() for id in (1, 2, 3)}
        super().__init__(directory)

    def write_config(self, id, role="", **more):
        role = role or self.roles
        listeners = []
        if "broker" in role:
            listeners.append(f"PLAINTEXT://127.0.0.1:{self.broker_ports[id]}")
        if "controller" in role:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.ports[id]}")
        return super().write_config(id, role, listeners=",".join(listeners), **more)

    def add_broker(self, id):
        self.broker_ports[id] = steady_port()
        self.write_config(id, "broker")
        super().format(id, "--ignore-formatted")
        self.start(id)

    def start(self, *ids):
        """Starts nodes together: a broker is ready when a majority of the controllers is."""
        chosen = ids or tuple(self.ports)
        for id in chosen:
            self.processes[id] = Process("--config", str(self.files[id]), wait=False)
        for id in chosen:
            process = self.processes[id]
            process.facts = process.wait_for("ready")

    def bootstrap_of(self, *ids):
        return ",".join(f"127.0.0.1:{self.broker_ports[id]}" for id in ids)
