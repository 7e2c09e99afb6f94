"""Holds the SCRAM credentials of users (KIP-554), as the metadata log sets them. Pure."""

from collections.abc import Iterator

from bowstring.protocol.records.cluster_metadata.security import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)


class ScramImage:
    """The credentials.

    Attributes:
        by_user: Records by name of the user and number of the mechanism. Do not modify.
        generation: The same object in all images that have the same credentials.
    """

    def __init__(self) -> None:
        self.by_user: dict[str, dict[int, UserScramCredentialRecord]] = {}
        self.generation = object()

    def get(self, user: str, mechanism: int) -> UserScramCredentialRecord | None:
        """Returns a user's credential for a mechanism."""
        return self.by_user.get(user, {}).get(mechanism)

    def add(self, record: UserScramCredentialRecord) -> None:
        """Sets a credential."""
        self.by_user[record.name] = self.by_user.get(record.name, {}) | {record.mechanism: record}
        self.generation = object()

    def remove(self, record: RemoveUserScramCredentialRecord) -> None:
        """Removes a credential; removing an unknown one has no effect."""
        left = {
            mechanism: each
            for mechanism, each in self.by_user.get(record.name, {}).items()
            if mechanism != record.mechanism
        }
        if left:
            self.by_user[record.name] = left
        else:
            self.by_user.pop(record.name, None)
        self.generation = object()

    def copy(self) -> "ScramImage":
        """Returns the same credentials, which later records do not change."""
        new = ScramImage()
        new.by_user = self.by_user.copy()
        new.generation = self.generation
        return new

    def records(self) -> Iterator[UserScramCredentialRecord]:
        """Returns the records that lead from no credentials to these."""
        for mechanisms in self.by_user.values():
            yield from mechanisms.values()

    def __len__(self) -> int:
        return sum(map(len, self.by_user.values()))
