"""Finds the SCRAM credentials with which controllers log in to one another while there is no leader.

Credentials are records of the metadata log, and count once they are committed. A quorum that starts has no
committed record before its controllers have reached one another, which takes credentials. Until it has one,
a controller also uses what formatting has left (KIP-900) and what its own log has.
"""

from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.quorum.service import QuorumService
from bowstring.protocol.records.cluster_metadata.security import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)


class EarlyCredentials:
    """An image with the credentials, for the authentication of controllers' listeners.

    Args:
        quorum: This node's replica, which is open when the first login comes.
    """

    def __init__(self, quorum: QuorumService) -> None:
        self._quorum = quorum
        self._begins_at: int | None = None
        self._early: ClusterImage | None = None
        self._read_until = -1

    @property
    def image(self) -> ClusterImage:
        """The image of the cluster; until something is committed, one with credentials alone."""
        if self._begins_at is None:
            self._begins_at = self._quorum.high_watermark
        if self._quorum.high_watermark > self._begins_at:
            self._early = None
            return self._quorum.image
        end_offset = self._quorum.log_end_offset
        if self._early is None or self._read_until != end_offset:
            self._early, self._read_until = self._read(), end_offset
        return self._early

    def _read(self) -> ClusterImage:
        image = ClusterImage()
        image.scram = self._quorum.image.scram.copy()
        formatted = [] if self._quorum.end_offset else self._quorum.bootstrap_records()
        ahead = self._quorum.records_ahead(UserScramCredentialRecord, RemoveUserScramCredentialRecord)
        for record in (*formatted, *ahead):
            if isinstance(record, UserScramCredentialRecord):
                image.scram.add(record)
            elif isinstance(record, RemoveUserScramCredentialRecord):
                image.scram.remove(record)
        return image
