"""Sends the description of a streams group's topology to its coordinator, for a plugin there (KIP-1331)."""

from __future__ import annotations

from bowstring.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string, struct


class TopologyDescriptionNode(Struct):
    name: str = string("0+")
    node_type: int = int8("0+")
    source_topics: list[str] = array(string, "0+")
    sink_topic: str | None = string("0+", nullable="0+", default=None)
    stores: list[str] = array(string, "0+")
    successors: list[str] = array(string, "0+")


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: str = string("0+")
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode, "0+")


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = struct(TopologyDescriptionNode, "0+")
    processor: TopologyDescriptionNode = struct(TopologyDescriptionNode, "0+")


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology, "0+")
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore, "0+")


class StreamsGroupTopologyDescriptionUpdateRequest(Request, key=93):
    group_id: str = string("0+")
    member_id: str = string("0+")
    topology_epoch: int = int32("0+")
    topology_description: TopologyDescription = struct(TopologyDescription, "0+")


class StreamsGroupTopologyDescriptionUpdateResponse(
    Response, to=StreamsGroupTopologyDescriptionUpdateRequest
):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
