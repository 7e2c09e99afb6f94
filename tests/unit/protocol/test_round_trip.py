"""Every message and version survives a round trip, with the bytes of the reference codec."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bowstring._native.protocol.message_codec import Elements, decode_lazily
from bowstring._native.protocol.message_steps import DONE, Encoding
from bowstring.protocol import ProtocolError, decode, decode_prefix, encode
from bowstring.protocol.schema import ARRAY, STRUCT, Struct, fields_of
from tests.support import reference_codec
from tests.support.declared_messages import (
    all_messages,
    name_of,
    requests_and_responses,
    structs_in,
    versions,
)
from tests.support.example_messages import example

quick = settings(max_examples=25, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("declared", all_messages(), ids=name_of)
@quick
@given(chance=st.randoms(use_true_random=False))
def test_every_version(declared, chance):
    for version in versions(declared):
        instance = example(declared, version, chance)
        data = encode(instance, version)
        assert data == reference_codec.encode(instance, version)
        assert decode(declared, version, data) == instance


@pytest.mark.parametrize("declared", all_messages(), ids=name_of)
def test_defaults(declared):
    """An empty instance can be sent in every version, and is the same on the other side."""
    for version in versions(declared):
        data = encode(declared(), version)
        assert data == reference_codec.encode(declared(), version)
        assert decode(declared, version, data) == declared()


@settings(quick, max_examples=300)
@given(
    chance=st.randoms(use_true_random=False),
    declared=st.sampled_from(all_messages()),
    unknown=st.dictionaries(st.integers(100, 2**32 - 1), st.binary(max_size=200), max_size=3),
)
def test_unknown_tags_are_kept(declared, chance, unknown):
    for version in versions(declared):
        instance = example(declared, version, chance)
        lowest, highest = declared.__layout__.flexible
        if lowest <= version <= highest:
            for inner in structs_in(instance, version):
                inner.unknown_tags = unknown or None
        data = encode(instance, version)
        assert data == reference_codec.encode(instance, version)
        assert decode(declared, version, data) == instance


def enlarge(instance, chance, factor=1000):
    """Repeats the elements of all arrays: those of the innermost ones `factor` times at most."""
    for field in fields_of(type(instance)):
        found = getattr(instance, field.name)
        if field.kind == ARRAY and found:
            times = chance.randrange(1, factor + 1)
            for each in found if field.element == STRUCT else ():
                enlarge(each, chance, max(factor // times, 1))
            setattr(instance, field.name, found * times)


def plain(value):
    """The same with lists in place of arrays that were left on the wire."""
    if isinstance(value, Elements):
        return [plain(each) for each in value]
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, Struct):
        for field in fields_of(type(value)):
            setattr(value, field.name, plain(getattr(value, field.name)))
    return value


@settings(quick, max_examples=60)
@given(chance=st.randoms(use_true_random=False), declared=st.sampled_from(requests_and_responses()))
def test_large_messages_are_decoded_and_encoded_step_by_step(chance, declared):
    version = chance.choice(versions(declared))
    instance = example(declared, version, chance)
    enlarge(instance, chance)
    data = encode(instance, version)
    lazy = decode_lazily(declared, version, data)
    for _ in range(2):  # arrays can be gone through again
        assert step_by_step(lazy, version) == data
    assert plain(lazy) == instance
    assert step_by_step(instance, version) == data


def step_by_step(message, version):
    encoding = Encoding(message, version)
    while encoding.step(0) != DONE:
        pass
    return encoding.take()


@settings(quick, max_examples=150)
@given(
    chance=st.randoms(use_true_random=False),
    declared=st.sampled_from(requests_and_responses()),
    cut=st.integers(0, 1 << 20),
    byte=st.none() | st.integers(0, 255),
)
def test_a_large_message_that_is_cut_or_damaged_is_refused_as_others_are(chance, declared, cut, byte):
    version = chance.choice(versions(declared))
    instance = example(declared, version, chance)
    enlarge(instance, chance)
    data = encode(instance, version)
    at = cut % max(len(data), 1)
    bad = data[:at] + (b"" if byte is None else bytes([byte]) + data[at + 1 :])
    try:
        expected, _ = decode_prefix(declared, version, bad)
    except ProtocolError:
        expected = None
    try:
        found = plain(decode_lazily(declared, version, bad))
    except ProtocolError:
        found = None
    assert found == expected
