"""Which partition a directory belongs to when a broker starts."""

import pytest

from bowstring.engine.metadata.image import ClusterImage, PartitionImage, TopicImage
from bowstring.engine.storage.found_logs import find_places
from bowstring.engine.storage.log_directories import LogDirectories

OLD, NEW = b"o" * 16, b"n" * 16


@pytest.fixture
def directories(tmp_path):
    """A directory that was closed cleanly, with a partition of an earlier topic of the same name."""
    first = LogDirectories([str(tmp_path / "data")])
    first.open(1)
    (tmp_path / "data" / "t-0").mkdir()
    first.all[0].write_partition_metadata("t-0", OLD)
    first.mark_clean(7)
    first.close()
    again = LogDirectories([str(tmp_path / "data")])
    again.open(1)
    assert again.all[0].was_clean
    yield again
    again.close()


def image_of(topic_id):
    image = ClusterImage()
    topic = TopicImage("t", topic_id)
    topic.partitions.append(
        PartitionImage(
            (1, 2), (1, 2), leader=2, leader_epoch=0, partition_epoch=0, directories=(bytes(16),) * 2
        )
    )
    image.topics["t"] = image.topics_by_id[topic_id] = topic
    return image


@pytest.mark.parametrize(("topic_id", "is_found"), [(OLD, True), (NEW, False)])
def test_a_topic_made_anew_while_a_node_of_a_cluster_was_down_gets_no_old_records(
    directories, topic_id, is_found
):
    places = find_places(directories, image_of(topic_id), 1)
    assert ("t", 0) in places.live if is_found else places.strays == [(directories.all[0], "t", 0)]
