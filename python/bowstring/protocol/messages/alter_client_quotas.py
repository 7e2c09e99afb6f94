"""Sets or removes client quotas."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, Struct, array, boolean, float64, int16, int32, string


class EntityData(Struct):
    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class OpData(Struct):
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[EntityData] = array(EntityData, "0+")
    ops: list[OpData] = array(OpData, "0+")


class AlterClientQuotasRequest(Request, key=49, served_by=("broker", "controller")):
    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData, "0+")
    validate_only: bool = boolean("0+")


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entity: list[EntityData] = array(EntityData, "0+")


class AlterClientQuotasResponse(Response, to=AlterClientQuotasRequest):
    throttle_time_ms: int = int32("0+")
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData, "0+")
