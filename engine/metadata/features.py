"""Feature levels (KIP-584): what this version could speak, and what a cluster of it has agreed on."""

from typing import Final

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
HIGHEST_METADATA_VERSION: Final = 30

# 30 is Kafka 4.3's; 7 is the first that Kafka 4 reads. The versions of group, transaction, share and streams
# coordinators are not claimed until those are there; a level that another broker finalized in the same
# metadata log is kept.
SUPPORTED_FEATURES: Final = {METADATA_VERSION: (7, HIGHEST_METADATA_VERSION), KRAFT_VERSION: (0, 1)}
FINALIZED_FEATURES: Final = {METADATA_VERSION: HIGHEST_METADATA_VERSION}
