"""`DataPlane.watch`: several parts of the control thread wait for the high watermark of one partition."""

import pytest

from tests.support.plane_requests import batch, only, produce
from tests.support.replicated_planes import Planes
from tests.support.served_plane import TOPIC
from tests.support.waiting import HANG_S, wait_until

AT = (TOPIC, 0)


@pytest.fixture
def planes(tmp_path):
    made = Planes(tmp_path, lag_max_ms=int(HANG_S * 1000), wait_max_ms=20)
    yield made
    made.close()


def produced(planes: Planes, count: int) -> None:
    client = planes.client(0)
    for _ in range(count):
        client.send(produce(batch(b"a"), 9, acks=1), 9)
        assert only(client.receive(0, 9)).error_code == 0


def committed(planes: Planes, offset: int, *, epoch: int) -> None:
    """Followers come, and the high watermark reaches the produced records."""
    for broker in (1, 2):
        planes.follow(broker, 0, epoch)
    wait_until(lambda: planes.log(0).high_watermark == offset)


def wait_behind(planes: Planes) -> None:
    """The high watermark is at 1, and two records wait for followers."""
    planes.elect(0, 1, followers=[])
    produced(planes, 1)
    committed(planes, 1, epoch=1)
    for broker in (1, 2):
        planes.replicas[broker].follow(TOPIC, 0, leader_epoch=2)
    planes.elect(0, 2, followers=[])
    produced(planes, 2)
    assert planes.log(0).high_watermark == 1


def test_a_wait_that_is_over_at_once_ends_no_other(planes):
    wait_behind(planes)
    plane = planes.served[0].plane
    assert plane.watch(*AT, 3)
    assert not plane.watch(*AT, 1)
    committed(planes, 3, epoch=2)
    assert wait_until(plane.take_advanced) == [AT]


def test_the_lowest_of_several_waits_stands(planes):
    wait_behind(planes)
    plane = planes.served[0].plane
    assert plane.watch(*AT, 3)
    assert plane.watch(*AT, 9)
    committed(planes, 3, epoch=2)
    assert wait_until(plane.take_advanced) == [AT]
    assert plane.watch(*AT, 9)
    assert plane.take_advanced() == []
