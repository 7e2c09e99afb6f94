"""What must hold when disks fail."""

from bowstring.engine.metadata.features import names_directories
from tests.simulation.nodes.invariants import Rule


class EndsWithItsDisks(Rule):
    """A node ends if its disks force it to: its metadata log, or all of its log directories, have failed."""

    def why_not_healthy(self):
        for node, broker in self.brokers():
            why = broker.directories.why_lost
            if why is not None:
                return f"{node.name} goes on: {why.replace(self.world.path, '')}"
        return None


class LeadersLeaveFailedDirectories(Rule):
    """A failed log directory's partitions are led by another broker if one is in sync, before any repair."""

    def why_not_healthy(self):
        for node, broker in self.brokers():
            if not broker.directories.all_online:
                name = led_in_failed_directory(node)
                return f"{node.name} has a directory that failed" + (f", and leads {name}" if name else "")
        return None


def led_in_failed_directory(node):
    """Returns a partition that a node leads in a failed directory although another replica is in sync; None without one."""
    image = node.broker.quorum.image
    if not names_directories(image.features):
        return None  # the controller has no assignment of replicas to directories
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader == node.id and any(each != node.id for each in partition.in_sync):
                log = node.broker.logs.get(topic.name, index)
                if log is None or log.failed:
                    return f"{topic.name}-{index}"
    return None
