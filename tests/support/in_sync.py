"""Waits until the replicas of a topic are in sync."""

from tests.support.waiting import wait_until


def wait_until_in_sync(admin, topic):
    def state():
        return [
            (part.leader, set(part.replicas) - set(part.isr))
            for part in admin.describe_topic(topic).partitions.values()
        ]

    wait_until(lambda: all(leader >= 0 and not missing for leader, missing in state()), state)
