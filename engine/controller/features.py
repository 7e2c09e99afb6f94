"""Raises and lowers finalized feature levels (KIP-584), metadata.version among them."""

from typing import Final

from bowstring.engine.controller.decision import Decision, check_not_too_many
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata import eligible_leaders
from bowstring.engine.metadata.features import CHANGED_METADATA, CONTROLLER_REGISTRATIONS_SINCE, ELR_SINCE
from bowstring.engine.metadata.image import BROKER_RESOURCE
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import ELIGIBLE_LEADER_REPLICAS, KRAFT_VERSION, METADATA_VERSION
from bowstring.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from bowstring.protocol.records.cluster_metadata.nodes import RegisterControllerRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord, FeatureLevelRecord
from bowstring.protocol.schema import MetadataRecord

_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3
_NO_LEVELS: Final = (0, 0)


def update_features(
    state: ControllerState, request: UpdateFeaturesRequest, version: int
) -> Decision[UpdateFeaturesResponse]:
    """Changes all features that are named, or none.

    A metadata.version is not lowered past one that added records or fields.

    Args:
        version: Of the request; before 1 it says whether a downgrade is allowed, since 1 of what kind. Before
            2 the answer has a result for each feature.

    Raises:
        KafkaError: INVALID_UPDATE_VERSION for a feature that cannot change so; INVALID_REQUEST for one that
            is named twice; POLICY_VIOLATION for too many.
    """
    check_not_too_many(len(request.feature_updates))
    updates = {each.feature: each for each in request.feature_updates}
    if len(updates) != len(request.feature_updates):
        raise KafkaError(Errors.INVALID_REQUEST, "A feature is named more than once.")
    records: list[MetadataRecord] = []
    for each in updates.values():
        records += _update(state, updates, each, version)
    answer = UpdateFeaturesResponse(error_message=None)
    if version < 2:
        answer.results = [UpdatableFeatureResult(feature=name, error_message=None) for name in updates]
    if request.validate_only:
        return Decision([], answer)
    quorum = updates.get(KRAFT_VERSION)
    return Decision(records, answer, kraft_version=None if quorum is None else quorum.max_version_level)


def _refused(update: FeatureUpdateKey, reason: str) -> KafkaError:
    return KafkaError(
        Errors.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}",
    )


def _update(
    state: ControllerState, updates: dict[str, FeatureUpdateKey], update: FeatureUpdateKey, version: int
) -> list[MetadataRecord]:
    kind = update.upgrade_type
    if version < 1:
        kind = _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        raise _refused(update, "The controller does not support the given upgrade type.")
    name, level = update.feature, update.max_version_level
    present = _present(state, name)
    if level < 0:
        raise _refused(update, "A feature version cannot be less than 0.")
    reason = _why_unsupported(state, name, level)
    if reason is not None:
        raise _refused(update, reason)
    if level < present and kind == _UPGRADE:
        raise _refused(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade.",
        )
    if level > present and kind != _UPGRADE:
        raise _refused(update, "Can't downgrade to a newer version.")
    if name == KRAFT_VERSION:
        # Its level is a control record of the quorum, with the voters that are in the log from then on.
        refusal = state.kraft_version_refusal(level)
        if refusal is not None:
            raise _refused(update, refusal)
        return []
    record = FeatureLevelRecord(name=name, feature_level=level)
    if name == METADATA_VERSION:
        _check_metadata_version(level, present, unsafe=kind == _UNSAFE_DOWNGRADE)
    elif name == ELIGIBLE_LEADER_REPLICAS:
        return _change_eligible_leaders(state, updates, update, record)
    return [record]


def _present(state: ControllerState, name: str) -> int:
    if name == METADATA_VERSION:
        return state.metadata_version
    return state.kraft_version() if name == KRAFT_VERSION else state.image.features.get(name, 0)


def _why_unsupported(state: ControllerState, name: str, level: int) -> str | None:
    """Returns why some node does not support a level of a feature; None when all do."""
    nodes = {f"The local controller {state.node_id}": state.supported_features}
    for broker in state.image.brokers.values():
        nodes[f"Broker {broker.id}"] = {each: (low, high) for each, low, high in broker.features}
    if state.metadata_version >= CONTROLLER_REGISTRATIONS_SINCE:
        registered = {state.node_id}
        for record in state.image.kept.of(RegisterControllerRecord):
            assert isinstance(record, RegisterControllerRecord)
            registered.add(record.controller_id)
            if record.controller_id != state.node_id:
                nodes[f"Controller {record.controller_id}"] = {
                    each.name: (each.min_supported_version, each.max_supported_version)
                    for each in record.features
                }
        missing = sorted(set(state.voters()) - registered)
        if missing:
            return f"controller {missing[0]} has not registered, and may not support this feature"
    for who, features in nodes.items():
        lowest, highest = features.get(name, _NO_LEVELS)
        # A node without a feature can work without it.
        if not lowest <= level <= highest and (level or name in features):
            if highest == 0:
                return f"{who} does not support this feature."
            return f"{who} only supports versions {lowest}-{highest}"
    return None


def _check_metadata_version(level: int, present: int, *, unsafe: bool) -> None:
    if level < present and any(level < changed <= present for changed in CHANGED_METADATA):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if unsafe
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise KafkaError(
            Errors.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {present} to {level}. {reason}",
        )


def _change_eligible_leaders(
    state: ControllerState,
    updates: dict[str, FeatureUpdateKey],
    update: FeatureUpdateKey,
    record: FeatureLevelRecord,
) -> list[MetadataRecord]:
    """Fixes the minimum of in-sync replicas for all brokers, because a broker's own one would make the
    eligible leaders wrong, or forgets the eligible leaders.
    """
    metadata_version = updates.get(METADATA_VERSION)
    level = state.metadata_version if metadata_version is None else metadata_version.max_version_level
    if update.max_version_level == 0:
        return [record, *eligible_leaders.end(state.image)]
    if level < ELR_SINCE:
        raise _refused(
            update,
            f"{ELIGIBLE_LEADER_REPLICAS}={update.max_version_level} requires {METADATA_VERSION} of at least "
            f"{ELR_SINCE}.",
        )
    records: list[MetadataRecord] = [record]
    name = "min.insync.replicas"
    if name not in state.image.resource_configs(BROKER_RESOURCE, ""):
        value = state.configs.topic_default(name)
        records.append(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=name, value=value))
    records += [
        ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=None)
        for (kind, resource), configs in state.image.configs.items()
        if kind == BROKER_RESOURCE and resource and name in configs
    ]
    return records
