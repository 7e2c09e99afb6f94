"""Handles ApiVersions: lists the APIs, versions and features of this broker."""

from typing import TYPE_CHECKING, Final

from bowstring.protocol.errors import Errors
from bowstring.protocol.features import KRAFT_VERSION, SUPPORTED_FEATURES
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from bowstring.protocol.versions import api_range

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.requests.request import Request

_NAMING_VERSION: Final = 5
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.")


async def handle(
    request: "Request",
    *,
    node_id: int,
    cluster_id: str,
    metadata: "Metadata",
    offered: tuple[int, ...],
    quorum: "QuorumService",
) -> ApiVersionsResponse:
    """Lists the APIs.

    Behaviour: Produce is listed from version 0, which is not served but which librdkafka looks for
    (KAFKA-18659). `unsupported_version` answers a too new version in version 0.

    Versions: 1 adds the throttle time. 3 adds the client's software name, which must be well formed
    (KIP-511), and features (KIP-584). 4 lists features whose lowest level is 0 (KAFKA-17011). 5 names the
    cluster and broker that the client means to reach: another one answers REBOOTSTRAP_REQUIRED (KIP-1242).
    """
    body: ApiVersionsRequest = request.body
    if not _is_valid(body, request.version):
        return ApiVersionsResponse(error_code=Errors.INVALID_REQUEST.code)
    # Controllers do not check.
    if not (request.listener.is_controller or _is_meant(node_id, cluster_id, body, request.version)):
        return ApiVersionsResponse(error_code=Errors.REBOOTSTRAP_REQUIRED.code)
    return ApiVersionsResponse(
        api_keys=[_offer(key) for key in offered],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
            if low > 0 or request.version >= 4
        ],
        finalized_features_epoch=metadata.end_offset - 1,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in _finalized(metadata, quorum).items()
            # Clients must not use features that only another broker of this log supports.
            if name in SUPPORTED_FEATURES
        ],
    )


def _finalized(metadata: "Metadata", quorum: "QuorumService") -> dict[str, int]:
    """Returns the levels of features; kraft.version, which the quorum itself keeps, unless it is 0."""
    level = quorum.quorum.kraft_version
    return {**metadata.image.features, **({KRAFT_VERSION: level} if level else {})}


def unsupported_version() -> ApiVersionsResponse:
    """Returns the answer, in version 0, to an unknown version of ApiVersions."""
    return ApiVersionsResponse(
        error_code=Errors.UNSUPPORTED_VERSION.code, api_keys=[_offer(ApiKeys.API_VERSIONS)]
    )


def _offer(key: int) -> ApiVersion:
    api = api_range(key)
    lowest = 0 if key == ApiKeys.PRODUCE else api.lowest
    return ApiVersion(api_key=key, min_version=lowest, max_version=api.highest)


def _is_valid(body: ApiVersionsRequest, version: int) -> bool:
    return version < 3 or (
        _is_software_name(body.client_software_name) and _is_software_name(body.client_software_version)
    )


def _is_meant(node_id: int, cluster_id: str, body: ApiVersionsRequest, version: int) -> bool:
    """Whether the client means this broker. Without a cluster id it means any."""
    if version < _NAMING_VERSION or body.cluster_id is None:
        return True
    return body.cluster_id == cluster_id and body.node_id == node_id


def _is_software_name(text: str) -> bool:
    """Whether the text is letters, digits, dots and dashes, with a letter or digit at both ends."""
    return bool(text) and _NAME_CHARACTERS.issuperset(text) and text[0] not in "-." and text[-1] not in "-."
