"""Names the features of KIP-584, the levels that this version supports, and those that a new cluster has."""

from typing import Final

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
TRANSACTION_VERSION: Final = "transaction.version"
HIGHEST_TRANSACTION_VERSION: Final = 2
GROUP_VERSION: Final = "group.version"
HIGHEST_GROUP_VERSION: Final = 1
SHARE_VERSION: Final = "share.version"
HIGHEST_SHARE_VERSION: Final = 2
STREAMS_VERSION: Final = "streams.version"
HIGHEST_STREAMS_VERSION: Final = 1
HIGHEST_METADATA_VERSION: Final = 33
BOWSTRING_VERSION: Final = "bowstring.version"
"""In the registration of each node: distinguishes Bowstring's registration from Kafka's. Never finalized."""
REGISTERED_BY_BOWSTRING: Final = (0, 1)

# Level 33 is Kafka 4.4's; 7 is the first that Kafka 4 reads. A level that another broker finalized in the
# same metadata log is kept.
SUPPORTED_FEATURES: Final = {
    METADATA_VERSION: (7, HIGHEST_METADATA_VERSION),
    KRAFT_VERSION: (0, 1),
    ELIGIBLE_LEADER_REPLICAS: (0, 1),
    TRANSACTION_VERSION: (0, HIGHEST_TRANSACTION_VERSION),
    GROUP_VERSION: (0, HIGHEST_GROUP_VERSION),
    SHARE_VERSION: (0, HIGHEST_SHARE_VERSION),
    STREAMS_VERSION: (0, HIGHEST_STREAMS_VERSION),
}

FINALIZED_FEATURES: Final = {
    METADATA_VERSION: HIGHEST_METADATA_VERSION,
    TRANSACTION_VERSION: HIGHEST_TRANSACTION_VERSION,
    GROUP_VERSION: HIGHEST_GROUP_VERSION,
    SHARE_VERSION: HIGHEST_SHARE_VERSION,
    STREAMS_VERSION: HIGHEST_STREAMS_VERSION,
}
"""Levels of a new cluster."""
