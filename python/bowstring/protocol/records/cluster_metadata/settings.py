"""Declares the records of configs, quotas, features and producer id blocks in __cluster_metadata."""

from __future__ import annotations

from bowstring.protocol.schema import (
    MetadataRecord,
    Struct,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
)


class ConfigRecord(MetadataRecord, key=4, versions="0", flexible="0+"):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+", secret=True)


class EntityData(Struct):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class ClientQuotaRecord(MetadataRecord, key=14, versions="0", flexible="0+"):
    entity: list[EntityData] = array(EntityData, "0+")
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class FeatureLevelRecord(MetadataRecord, key=12, versions="0", flexible="0+"):
    name: str = string("0+")
    feature_level: int = int16("0+")


class ProducerIdsRecord(MetadataRecord, key=15, versions="0", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    next_producer_id: int = int64("0+")
