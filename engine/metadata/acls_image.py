"""Holds the access control entries of the cluster (KIP-801), as the metadata log sets them. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from bowstring.protocol.records.cluster_metadata.security import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)


class Acl(NamedTuple):
    """One rule, with Kafka's numbers. The order of the fields is that of the native rules."""

    resource_type: int
    pattern_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission: int


class AclsImage:
    """The rules by id.

    Attributes:
        entries: Do not modify.
        existing: The rules without their ids. Do not modify.
    """

    def __init__(self) -> None:
        self.entries: dict[bytes, Acl] = {}
        self.existing: set[Acl] = set()

    def add(self, record: AccessControlEntryRecord) -> None:
        """Adds a rule, in place of one with the same id."""
        self._forget(record.id)
        acl = Acl(
            record.resource_type,
            record.pattern_type,
            record.resource_name,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        self.entries[record.id] = acl
        self.existing.add(acl)

    def remove(self, record: RemoveAccessControlEntryRecord) -> None:
        """Removes a rule; removing an unknown one has no effect."""
        self._forget(record.id)

    def _forget(self, id: bytes) -> None:
        acl = self.entries.pop(id, None)
        if acl is not None:
            self.existing.discard(acl)

    def copy(self) -> "AclsImage":
        """Returns the same rules, which later records do not change."""
        new = AclsImage()
        new.entries = self.entries.copy()
        new.existing = self.existing.copy()
        return new

    def records(self) -> Iterator[AccessControlEntryRecord]:
        """Returns the records that lead from no rules to these."""
        for id, acl in self.entries.items():
            yield acl_record(id, acl)

    def __len__(self) -> int:
        return len(self.entries)


def acl_record(id: bytes, acl: Acl) -> AccessControlEntryRecord:
    """Returns the record that adds a rule."""
    return AccessControlEntryRecord(
        id=id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
