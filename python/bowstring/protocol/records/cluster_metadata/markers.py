"""Declares records of __cluster_metadata without state of their own: transactions, no-op, migration."""

from __future__ import annotations

from bowstring.protocol.schema import MetadataRecord, int8, string


class BeginTransactionRecord(MetadataRecord, key=23, versions="0", flexible="0+"):
    name: str | None = string("0+", nullable="0+", default=None, tag=0)


class EndTransactionRecord(MetadataRecord, key=24, versions="0", flexible="0+"):
    pass


class AbortTransactionRecord(MetadataRecord, key=25, versions="0", flexible="0+"):
    reason: str | None = string("0+", nullable="0+", default=None, tag=0)


class NoOpRecord(MetadataRecord, key=20, versions="0", flexible="0+"):
    pass


class ZkMigrationStateRecord(MetadataRecord, key=21, versions="0", flexible="0+"):
    zk_migration_state: int = int8("0+")
