"""A data plane with one reactor and with three, and a client of it."""

import pytest

from bowstring._native.log.verified_ranges import recent_bytes
from tests.support.served_plane import Served


@pytest.fixture(params=[1, 3], ids=["one-reactor", "three-reactors"])
def served(tmp_path, request):
    served = Served(tmp_path, reactors=request.param)
    yield served
    served.close()


@pytest.fixture
def client(served):
    return served.client()


@pytest.fixture
def always_ask():
    """No range counts as being in memory because it was written lately."""
    before = recent_bytes(0)
    yield
    recent_bytes(before)
