"""Declares the records of brokers and controllers in __cluster_metadata."""

from __future__ import annotations

from bowstring.protocol.schema import (
    MetadataRecord,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class BrokerEndpoint(Struct):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")
    security_protocol: int = int16("0+")


class BrokerFeature(Struct):
    name: str = string("0+")
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class RegisterBrokerRecord(MetadataRecord, key=0, versions="0-4", flexible="0+"):
    broker_id: int = int32("0+")
    is_migrating_zk_broker: bool = boolean("2+")
    incarnation_id: bytes = uuid("0+")
    broker_epoch: int = int64("0+")
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint, "0+")
    features: list[BrokerFeature] = array(BrokerFeature, "0+")
    rack: str | None = string("0+", nullable="0+")
    fenced: bool = boolean("0+", default=True)
    in_controlled_shutdown: bool = boolean("1+")
    log_dirs: list[bytes] = array(uuid, "3+", tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "4+", nullable="4+", default=None, tag=1)


class UnregisterBrokerRecord(MetadataRecord, key=1, versions="0", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+")


class FenceBrokerRecord(MetadataRecord, key=7, versions="0", flexible="0+"):
    id: int = int32("0+")
    epoch: int = int64("0+")


class UnfenceBrokerRecord(MetadataRecord, key=8, versions="0", flexible="0+"):
    id: int = int32("0+")
    epoch: int = int64("0+")


class BrokerRegistrationChangeRecord(MetadataRecord, key=17, versions="0-3", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+")
    fenced: int = int8("0+", tag=0)
    in_controlled_shutdown: int = int8("1+", tag=1)
    log_dirs: list[bytes] = array(uuid, "2+", tag=2)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "3+", nullable="3+", default=None, tag=3)


class ControllerEndpoint(Struct):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")
    security_protocol: int = int16("0+")


class ControllerFeature(Struct):
    name: str = string("0+")
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class RegisterControllerRecord(MetadataRecord, key=27, versions="0", flexible="0+"):
    controller_id: int = int32("0+")
    incarnation_id: bytes = uuid("0+")
    zk_migration_ready: bool = boolean("0+")
    end_points: list[ControllerEndpoint] = array(ControllerEndpoint, "0+")
    features: list[ControllerFeature] = array(ControllerFeature, "0+")


class UnregisterControllerRecord(MetadataRecord, key=29, versions="0", flexible="0+"):
    controller_id: int = int32("0+")
