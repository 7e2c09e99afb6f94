"""Implements Admin's methods for feature levels (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from bowstring.clients.admin.calls import AdminCalls
from bowstring.clients.admin.results import FeatureLevels
from bowstring.clients.errors import ConfigError, broker_error
from bowstring.clients.net.frames import api_versions_body
from bowstring.protocol.messages.api_versions import ApiVersionsRequest
from bowstring.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

Change = Literal["upgrade", "downgrade", "unsafe downgrade"]
# The upgrade types of UpdateFeatures.
CHANGES: Final[dict[Change, int]] = {"upgrade": 1, "downgrade": 2, "unsafe downgrade": 3}


class AdminFeatures(AdminCalls):
    """Mixed into Admin."""

    def describe_features(self) -> dict[str, FeatureLevels]:
        """Returns the feature levels of the cluster, and those that a broker supports, by feature.

        A level decides what the cluster has: with group.version 1 its groups have the protocol of KIP-848.
        """
        response = self._call(self._any_node, ApiVersionsRequest, api_versions_body)
        if response.error_code:
            raise broker_error(response.error_code, "describing the features")
        finalized = {each.name: each.max_version_level for each in response.finalized_features}
        supported = {each.name: each for each in response.supported_features}
        return {
            name: FeatureLevels(
                finalized.get(name, 0),
                supported[name].min_version if name in supported else 0,
                supported[name].max_version if name in supported else 0,
            )
            for name in sorted(finalized.keys() | supported)
        }

    def update_features(
        self, levels: Mapping[str, int], *, change: Change = "upgrade", validate_only: bool = False
    ) -> None:
        """Changes feature levels of the cluster: all that are named, or none.

        Args:
            levels: the new level of each feature; 0 disables a feature.
            change: "upgrade"; "downgrade"; or "unsafe downgrade", which may lose metadata.
            validate_only: checks and changes nothing.

        Raises:
            ConfigError: there is no such change.
            BrokerError: a feature cannot have the level; the message names it and says why.
        """
        if change not in CHANGES:
            raise ConfigError(f"change is one of {', '.join(CHANGES)}, not {change!r}")
        request = UpdateFeaturesRequest(
            timeout_ms=self._broker_timeout_ms(),
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=CHANGES[change])
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )
        response = self._to_controller(UpdateFeaturesRequest, request)
        for each in (response, *response.results):
            if each.error_code:
                raise broker_error(each.error_code, "updating features", each.error_message)
