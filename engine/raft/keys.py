"""Identifies replicas and positions in the log."""

from typing import Final, NamedTuple

NO_DIRECTORY: Final = bytes(16)
"""The zero id: the directory is not known, as with configured voters."""
NO_LEADER: Final = -1


class ReplicaKey(NamedTuple):
    """A replica: its node and the directory that its log is in (KIP-853).

    A node with a new disk has a new directory id. It is another replica then: it does not have the votes and
    the records that the old one acknowledged.
    """

    id: int
    directory_id: bytes = NO_DIRECTORY

    def is_meant_by(self, other: "ReplicaKey") -> bool:
        """Whether `other` names this replica; a key without a directory names every directory of its node."""
        return self.id == other.id and other.directory_id in (NO_DIRECTORY, self.directory_id)


class OffsetAndEpoch(NamedTuple):
    """The end of a log: the offset after its last record, and that record's epoch. Also a snapshot's id."""

    offset: int
    epoch: int

    def is_up_to_date_with(self, other: "OffsetAndEpoch") -> bool:
        """Whether a log that ends here has all that a log that ends at `other` may have committed."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


BOOTSTRAP_SNAPSHOT: Final = OffsetAndEpoch(0, 0)
"""The snapshot that formatting a directory writes. Its content reaches the log through the first leader."""
