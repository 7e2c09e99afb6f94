"""Feature levels (KIP-584): what this version could speak, and what a cluster of it has agreed on."""

from typing import Final

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"

# 30 is Kafka 4.3's; 7 is the first that Kafka 4 reads. The versions of group, transaction, share and streams
# coordinators are not claimed until those are there.
SUPPORTED_FEATURES: Final = {METADATA_VERSION: (7, 30), KRAFT_VERSION: (0, 1)}
FINALIZED_FEATURES: Final = {METADATA_VERSION: 30}
