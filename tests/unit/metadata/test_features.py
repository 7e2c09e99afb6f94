"""Levels of a cluster that this version does not support."""

from bowstring.engine.metadata.features import unsupported_levels
from bowstring.protocol.features import FINALIZED_FEATURES


def test_levels_beyond_ours_are_named_with_their_cure():
    assert unsupported_levels(FINALIZED_FEATURES | {"group.version": 0, "kraft.version": 1}) == []
    assert unsupported_levels({"metadata.version": 6, "group.version": 2}) == [
        "the cluster has group.version at level 2, and this version supports 0 to 1; run kafka-features "
        "downgrade --feature group.version=1",
        "the cluster has metadata.version at level 6, and this version supports 7 to 33; run kafka-features "
        "upgrade --feature metadata.version=7",
    ]
