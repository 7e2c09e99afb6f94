"""Logs of topics that the image no longer has, or has again; checkpoints and lost logs."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ClusterImage, PartitionImage, TopicImage
from bowstring.engine.storage.checkpoints import RECOVERY_POINTS, read_offsets, write_offsets
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.engine.storage.log_manager import LogManager


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
    made = LogManager.__new__(LogManager)
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


@pytest.mark.parametrize("points", [{("t", 0): 7, ("t", 1): 0}, None])
def test_a_loss_is_found_again_until_it_is_reported(tmp_path, points):
    """The broker may end in between."""
    directory = LogDirectory(tmp_path)
    if points is not None:
        write_offsets(tmp_path / RECOVERY_POINTS, points)
    manager = LogManager.__new__(LogManager)
    manager._directories = SimpleNamespace(
        opened=[directory], of=lambda log: directory, guard=lambda home, doing, work: [work()]
    )
    manager._written = {} if points is None else {(directory, RECOVERY_POINTS): points}
    manager._logs = {
        "t": [SimpleNamespace(recovery_point=at, log_start_offset=0, base_offset=0) for at in (0, 3)]
    }
    manager._writing = threading.Lock()
    manager._leaving = ()
    manager.lost = [("t", 0)]
    manager.checkpoint(RECOVERY_POINTS)()
    expected = None if points is None else {("t", 0): 7, ("t", 1): 3}
    path = tmp_path / RECOVERY_POINTS
    assert (dict(read_offsets(path)) if path.exists() else None) == expected
    manager.lost = []
    manager.checkpoint(RECOVERY_POINTS)()
    assert dict(read_offsets(path)) == {("t", 0): 0, ("t", 1): 3}
