"""Handles UpdateFeatures on a node alone: raises and lowers finalized feature levels (KIP-584)."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from bowstring._native.log.partition_log import LogError
from bowstring.engine.controller.decision import check_not_too_many
from bowstring.engine.controller.features import update_features
from bowstring.engine.metadata.image import ImageChange
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import HIGHEST_METADATA_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from bowstring.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from bowstring.protocol.records.control import Endpoint, KRaftVersionFeature, VotersRecord, VotersRecordVoter

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.committer import Committer
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.metadata.store.log import MetadataLog
    from bowstring.engine.requests.listeners import Listener
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices
    from bowstring.engine.storage.log_directories import LogDirectories

_KRAFT_VERSIONS: Final = KRaftVersionFeature(min_supported_version=0, max_supported_version=1)


class NodeAlone:
    """The state that decisions about features read on a node that is its quorum's only voter.

    Attributes are those of `bowstring.engine.controller.features.FeatureState`.
    """

    def __init__(self, metadata: "Metadata", configs: "BrokerConfigs", node_id: int) -> None:
        self.image = metadata.image
        self.node_id = node_id
        self.supported_features = SUPPORTED_FEATURES
        self.configs = configs
        self.voters: Callable[[], Iterable[int]] = lambda: [node_id]
        self.kraft_version: Callable[[], int] = lambda: metadata.quorum.kraft_version
        self.kraft_version_refusal: Callable[[int], str | None] = self._refusal

    @property
    def metadata_version(self) -> int:
        """The finalized metadata.version."""
        return self.image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)

    def _refusal(self, version: int) -> str | None:
        present = self.kraft_version()
        if version < present:
            return f"kraft.version is {present} and cannot be lowered: the voters are in the log."
        return None


async def handle(
    request: "Request",
    *,
    configs: "BrokerConfigs",
    node_id: int,
    directories: "LogDirectories",
    metadata: "Metadata",
    alone: "MetadataLog",
    committer: "Committer",
    advertised: "list[Listener]",
    time_slices: "TimeSlices",
) -> UpdateFeaturesResponse:
    """Changes all features that are named, or none.

    Behaviour: the controller of a cluster makes the same checks. The levels are in effect when the answer is
    sent. kraft.version 1 puts this node into the log as the only voter, before the other levels: if that
    fails, nothing has changed.

    Versions: 1 has kinds of downgrades and validate_only; 2 has no results.
    """
    body: UpdateFeaturesRequest = request.body
    updates: list[FeatureUpdateKey] = []
    async for update in time_slices.each(body.feature_updates):
        check_not_too_many(len(updates) + 1)
        updates.append(update)
    body = UpdateFeaturesRequest(feature_updates=updates, validate_only=body.validate_only)
    async with metadata.changing() as change:
        decision = update_features(NodeAlone(metadata, configs, node_id), body, request.version)
        version = decision.kraft_version
        if version is not None and version > metadata.quorum.kraft_version:
            await _upgrade_kraft_version(
                change, version, node_id=node_id, directories=directories, alone=alone, advertised=advertised
            )
        await committer.commit(change, decision.records)
    return decision.answer


async def _upgrade_kraft_version(
    change: ImageChange,
    version: int,
    *,
    node_id: int,
    directories: "LogDirectories",
    alone: "MetadataLog",
    advertised: "list[Listener]",
) -> None:
    voter = VotersRecordVoter(
        voter_id=node_id,
        voter_directory_id=directories.metadata.directory_id,
        # The listeners for clients: it has none for controllers, and no other node requests its vote. When it
        # starts as the first of a cluster, it leads and puts that listener into the log.
        endpoints=[Endpoint(name=each.name, host=each.host, port=each.port) for each in advertised],
        kraft_version_feature=_KRAFT_VERSIONS,
    )
    try:
        await alone.upgrade_kraft_version(change, version, VotersRecord(version=0, voters=[voter]))
    except (LogError, OSError) as error:
        raise KafkaError(
            Errors.KAFKA_STORAGE_ERROR, f"the metadata log cannot be written: {error}"
        ) from error
