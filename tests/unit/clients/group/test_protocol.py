import pytest

from bowstring.clients.errors import ProtocolError
from bowstring.clients.group import protocol as protocol
from bowstring.clients.group.assignors import Subscription
from bowstring.clients.records import TopicPartition as P


def test_subscription_comes_back():
    given = Subscription(("a", "b"), (P("a", 0), P("a", 3), P("b", 1)), 5)
    assert protocol.decode_subscription(protocol.encode_subscription(given)) == given


def test_assignment_comes_back():
    given = [P("a", 0), P("a", 1), P("b", 7)]
    assert protocol.decode_assignment(protocol.encode_assignment(given)) == given
    assert protocol.decode_assignment(b"") == []


def test_version_0_has_no_owned_partitions():
    old = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"
    assert protocol.decode_subscription(old) == Subscription(("t",))


def test_a_later_version_is_read_as_far_as_it_is_known():
    data = protocol.encode_subscription(Subscription(("t",)))
    assert protocol.decode_subscription(b"\0\x09" + data[2:] + b"more").topics == ("t",)


@pytest.mark.parametrize("data", [b"\0", b"\0\1", b"\0\1\0\0\0\7", b"\0\1\xff\xff\xff\xf0"])
def test_nonsense_is_named(data):
    with pytest.raises(ProtocolError, match=r"cannot be decoded|too few"):
        protocol.decode_subscription(data)
