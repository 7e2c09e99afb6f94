"""Says what the levels of features (KIP-584) change, and which of them a cluster has."""

from collections.abc import Mapping
from typing import Final

from bowstring.protocol.features import (
    ELIGIBLE_LEADER_REPLICAS,
    FINALIZED_FEATURES,
    GROUP_VERSION,
    HIGHEST_METADATA_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
)

# The metadata.version since which ...
LEADER_EPOCH_STAYS_SINCE: Final = 12
"""... a shrinking ISR does not raise the leader epoch (KAFKA-15021)."""
TRANSACTIONS_SINCE: Final = 13
"""... metadata transactions exist (KIP-868)."""
CONTROLLER_REGISTRATIONS_SINCE: Final = 15
"""... controllers register (KIP-919)."""
DIRECTORIES_SINCE: Final = 17
"""... partitions name the directories of their replicas (KIP-858)."""
ELR_SINCE: Final = 23
"""... partitions name their eligible leader replicas (KIP-966)."""
CORDONED_DIRECTORIES_SINCE: Final = 30
"""... brokers name directories that take no new replicas (KIP-1066)."""
SCRAM_SINCE: Final = 11
"""... SCRAM credentials are in the log (KIP-900)."""
DELEGATION_TOKENS_SINCE: Final = 14
"""... delegation tokens are."""
ADDRESS_BLOCKS_SINCE: Final = 32
"""... hosts of access control entries can be blocks of addresses."""
CONTROLLER_UNREGISTRATIONS_SINCE: Final = 33
"""... registrations of controllers can be removed (KIP-1312)."""
CHANGED_METADATA: Final = (7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33)
"""Levels that added records or fields, or values of them; a downgrade may not pass one of them."""

DEFAULT_LEVELS_SINCE: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    TRANSACTION_VERSION: ((24, 2),),
    GROUP_VERSION: ((22, 1),),
    ELIGIBLE_LEADER_REPLICAS: ((26, 1),),
    SHARE_VERSION: ((28, 1), (31, 2)),
    STREAMS_VERSION: ((29, 1),),
}
"""By feature, the metadata.version from which on new clusters have a level unless formatted otherwise.

KIP-890, KIP-848, KIP-966, KIP-932 with dead-letter topics in level 2 (KIP-1191), KIP-1071.
"""


def missing_levels(named: Mapping[str, int]) -> dict[str, int]:
    """Returns the levels that a new cluster gets besides those that its bootstrap records name.

    Formatting with an explicit metadata.version has chosen all levels: others are 0 then.
    """
    if METADATA_VERSION in named:
        return {}
    return {name: level for name, level in FINALIZED_FEATURES.items() if name not in named}


def default_levels(metadata_version: int) -> dict[str, int]:
    """Returns the levels of the other features with which a cluster at `metadata_version` is formatted."""
    return {
        name: max((level for since, level in levels if metadata_version >= since), default=0)
        for name, levels in DEFAULT_LEVELS_SINCE.items()
    }


_NONE: Final = (0, 0)


def unsupported_levels(finalized: Mapping[str, int]) -> list[str]:
    """Says which levels of a cluster this version does not support, and how to change that."""
    said = []
    for name, level in sorted(finalized.items()):
        low, high = SUPPORTED_FEATURES.get(name, _NONE)
        if level and not low <= level <= high:
            cure = f"downgrade --feature {name}={high}" if level > high else f"upgrade --feature {name}={low}"
            said.append(
                f"the cluster has {name} at level {level}, and this version supports {low} to {high}; run "
                f"kafka-features {cure}"
            )
    return said


def names_directories(finalized: Mapping[str, int]) -> bool:
    """Whether partitions of a cluster name the log directories of their replicas."""
    return finalized.get(METADATA_VERSION, HIGHEST_METADATA_VERSION) >= DIRECTORIES_SINCE
