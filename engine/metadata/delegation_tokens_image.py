"""Holds the delegation tokens of the cluster (KIP-900), as the metadata log sets them. Pure."""

from collections.abc import Iterator

from bowstring.protocol.records.cluster_metadata.security import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)


class DelegationTokensImage:
    """The tokens. Their HMACs are in no record: nodes calculate them with delegation.token.secret.key.

    Attributes:
        by_id: Records by token id. Do not modify.
    """

    def __init__(self) -> None:
        self.by_id: dict[str, DelegationTokenRecord] = {}

    def add(self, record: DelegationTokenRecord) -> None:
        """Sets a token."""
        self.by_id[record.token_id] = record

    def remove(self, record: RemoveDelegationTokenRecord) -> None:
        """Removes a token; removing an unknown one has no effect."""
        self.by_id.pop(record.token_id, None)

    def copy(self) -> "DelegationTokensImage":
        """Returns the same tokens, which later records do not change."""
        new = DelegationTokensImage()
        new.by_id = self.by_id.copy()
        return new

    def records(self) -> Iterator[DelegationTokenRecord]:
        """Returns the records that lead from no tokens to these."""
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)
