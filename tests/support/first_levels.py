"""A data directory whose cluster begins with the feature levels of an old release."""

from collections.abc import Mapping
from pathlib import Path

from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.snapshot import SnapshotId, encode_snapshot


def write_first_levels(directory: Path, levels: Mapping[str, int]) -> None:
    """Writes bootstrap.checkpoint, as Kafka's storage tool does; features that it does not name are at 0."""
    image = ClusterImage()
    image.features = dict(levels)
    directory.mkdir(parents=True)
    batches = encode_snapshot(image, QuorumFacts(), SnapshotId(0, 0), 0, 0)
    (directory / "bootstrap.checkpoint").write_bytes(b"".join(batches))
