"""Sets, deletes, appends to or subtracts from single configs (KIP-339)."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    name: str = string("0+")
    config_operation: int = int8("0+")
    value: str | None = string("0+", nullable="0+", secret=True)


class AlterConfigsResource(Struct):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    configs: list[AlterableConfig] = array(AlterableConfig, "0+")


class IncrementalAlterConfigsRequest(Request, key=44, served_by=("broker", "controller")):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+")
    validate_only: bool = boolean("0+")


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resource_type: int = int8("0+")
    resource_name: str = string("0+")


class IncrementalAlterConfigsResponse(Response, to=IncrementalAlterConfigsRequest):
    throttle_time_ms: int = int32("0+")
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+")
