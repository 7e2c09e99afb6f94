"""Every message and version comes back as it went in, as the bytes the reference codec makes."""

import pytest
import reference_codec
from declared_messages import all_messages, name_of, structs_in, versions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bowstring.engine.protocol import decode, encode
from bowstring.engine.protocol.examples import example

quick = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


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
    """An instance nobody filled can be sent in every version, and is the same on the other side."""
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
