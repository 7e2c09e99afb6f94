"""Handles StreamsGroupDescribe: returns topology, epochs and members of streams groups (KIP-1071)."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.api.consumer_group_describe import HIDDEN_TOPICS
from bowstring.engine.api.group_descriptions import GroupRights, described_groups
from bowstring.engine.api.streams_group_heartbeat import supports_streams_groups
from bowstring.engine.requests.time_slices import streamed
from bowstring.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.groups.service import GroupCoordinatorService
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.security.authorizer import Authorizer

_NOT_STORED: Final = 1
_TOPICS: Final = (
    "topology.subtopologies.source_topics",
    "topology.subtopologies.repartition_sink_topics",
    "topology.subtopologies.repartition_source_topics.name",
    "topology.subtopologies.state_changelog_topics.name",
)


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    metadata: "Metadata",
    groups: "GroupCoordinatorService",
    authorizer: "Authorizer",
    time_slices: "TimeSlices",
) -> StreamsGroupDescribeResponse:
    """Describes every requested group, in order.

    Versions: 1 adds the assignor (KIP-1357) and descriptions of topologies (KIP-1331), which nothing stores.
    """
    body: StreamsGroupDescribeRequest = request.body
    wanted = body.include_topology_description
    described = described_groups(
        groups,
        body.group_ids,
        lambda shard, group_id: _described(shard.describe_streams_group(group_id), asked=wanted),
        rights=GroupRights(request, authorizer, time_slices, topics=_TOPICS, advice=HIDDEN_TOPICS),
        refused=DescribedGroup,
        with_operations=body.include_authorized_operations,
        enabled=supports_streams_groups(configs, metadata),
    )
    return StreamsGroupDescribeResponse(groups=streamed(described))


def _described(group: DescribedGroup, *, asked: bool) -> DescribedGroup:
    """Adds that the description of the topology is not stored, where the client requested it."""
    if asked and not group.error_code:
        group.topology_description_status = _NOT_STORED
    return group
