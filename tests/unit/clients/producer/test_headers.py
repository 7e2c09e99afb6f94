"""Headers that `send` takes and refuses, without a broker."""

import pytest

from bowstring.clients.errors import ConfigError
from tests.support.offline_producer import OfflineProducer


def sent(headers):
    producer = OfflineProducer()
    producer.send("t", b"v", headers=headers)
    return producer.records()[0][0].headers


def test_a_name_may_be_bytes():
    assert sent([(b"a", b"1"), ("a", "1"), ("grün".encode(), None)]) == (
        ("a", b"1"),
        ("a", b"1"),
        ("grün", None),
    )
    assert sent({b"a": b"1"}) == sent({"a": b"1"}) == (("a", b"1"),)


def test_bytes_that_are_not_utf_8_are_sent_as_they_are():
    """As names that poll() decoded from such bytes are: docs/guide/clients.md."""
    assert sent([(b"d\xff", b"")]) == sent([("d\udcff", b"")]) == (("d\udcff", b""),)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ([(1, b"v")], r"name of a header is a int, 1; give it as str, or as bytes"),
        ([(None, b"v")], r"name of a header is a NoneType"),
        ([(bytearray(b"a"), b"v")], r"name of a header is a bytearray"),
        ({1.5: b"v"}, r"name of a header is a float"),
        (["ab"], r"a header is 'ab'; give headers as pairs"),
        ([("a",)], r"a header is \('a',\); give headers as pairs"),
        ("ab", r"a header is 'a'; give headers as pairs"),
    ],
)
def test_other_names_are_refused(headers, message):
    with pytest.raises(TypeError, match=message):
        sent(headers)


def test_other_values_are_refused():
    with pytest.raises(ConfigError, match=r"the header b'a' is a int; give bytes, text or None"):
        sent([(b"a", 1)])
