"""Handles StreamsGroupTopologyDescriptionUpdate: refuses descriptions, which nothing stores (KIP-1331)."""

from typing import TYPE_CHECKING

from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.requests.request import Request


async def handle(_request: "Request") -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Answers as Kafka does without a plugin, which would be a Java class. Heartbeats never request a
    description.
    """
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=Errors.UNSUPPORTED_VERSION.code,
        error_message="The broker has no plugin that stores descriptions of topologies.",
    )
