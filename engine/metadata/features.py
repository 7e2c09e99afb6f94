"""Lists the feature levels (KIP-584) that this version supports and the cluster has finalized."""

from typing import Final

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
HIGHEST_METADATA_VERSION: Final = 30

# Level 30 is Kafka 4.3's; 7 is the first that Kafka 4 reads. The features of the group, transaction, share
# and streams coordinators are not offered before those exist. A level that another broker finalized in the
# same metadata log is kept.
SUPPORTED_FEATURES: Final = {METADATA_VERSION: (7, HIGHEST_METADATA_VERSION), KRAFT_VERSION: (0, 1)}
FINALIZED_FEATURES: Final = {METADATA_VERSION: HIGHEST_METADATA_VERSION}
