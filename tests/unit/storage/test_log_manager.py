"""Configs of logs whose topic the image has not any more, or has anew."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ClusterImage, PartitionImage, TopicImage
from bowstring.engine.storage.log_manager import TopicLogs


class Log:
    """A log that notes its config."""

    in_commit_mode = False

    def __init__(self):
        self.configs = []

    def configure(self, config):
        self.configs.append(config)


@pytest.fixture
def logs():
    """The logs of two partitions each of the topics removed, shrunk and kept."""
    made = TopicLogs.__new__(TopicLogs)
    made._configs = BrokerConfigs({})
    made._logs = {name: [Log(), Log()] for name in ("removed", "shrunk", "kept")}
    made.durability = SimpleNamespace(switch=_nothing)
    made.least = {}
    made.set_min_in_sync = lambda topic, index, least: made.least.update({(topic, index): least})
    return made


async def _nothing(*_):
    pass


def partition():
    return PartitionImage((1,), (1,), leader=1, leader_epoch=0, partition_epoch=0, directories=())


def test_a_newer_image_does_not_end_the_change_of_the_other_topics(logs):
    image = ClusterImage()
    for number, (name, count) in enumerate((("shrunk", 1), ("kept", 2)), 1):
        image.topics[name] = TopicImage(name, bytes([number]) * 16)
        image.topics[name].partitions += [partition() for _ in range(count)]
    asyncio.run(logs.configure_all(image))
    configured = {name: [len(log.configs) for log in each] for name, each in logs._logs.items()}
    assert configured == {"removed": [0, 0], "shrunk": [1, 0], "kept": [1, 1]}
    assert set(logs.least) == {("shrunk", 0), ("kept", 0), ("kept", 1)}
