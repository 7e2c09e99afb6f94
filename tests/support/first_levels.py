"""A data directory whose cluster begins with the feature levels of an old release."""

from collections.abc import Mapping
from pathlib import Path

from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.snapshot import BOOTSTRAP_ID, encode_snapshot
from bowstring.engine.metadata.store.bootstrap import BOOTSTRAP_CHECKPOINT, bootstrap_snapshot


def write_first_levels(directory: Path, levels: Mapping[str, int], *, as_kafka_4_4: bool = False) -> None:
    """Writes what Kafka's storage tool does; features that it does not name are at 0.

    Args:
        as_kafka_4_4: Write the snapshot that ends at offset 0, as it does since 4.4, in place of
            bootstrap.checkpoint.
    """
    image = ClusterImage()
    image.features = dict(levels)
    path = bootstrap_snapshot(directory) if as_kafka_4_4 else directory / BOOTSTRAP_CHECKPOINT
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(encode_snapshot(image, QuorumFacts(), BOOTSTRAP_ID, 0, 0)))
