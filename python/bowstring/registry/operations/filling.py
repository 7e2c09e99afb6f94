"""Fills in what a registration leaves out: from the latest version, the config's defaults and overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bowstring.registry.operations.schema_request import SchemaRequest
from bowstring.registry.schema_metadata import merged_metadata, merged_rule_sets, version_of, with_version
from bowstring.registry.schema_record import SchemaRecord


def fill_in(
    config: Mapping[str, Any],
    request: SchemaRequest,
    latest: SchemaRecord | None,
    new_version: int | None = None,
) -> None:
    """Gives a request the metadata and rules that its version will have.

    Args:
        latest: Whose metadata and rules apply where the request has none.
        new_version: Goes into the metadata if the request names a version, or the metadata has the property
            already.
    """
    metadata, rule_set = request.metadata, request.rule_set
    if latest is not None:
        metadata = latest.metadata if metadata is None else metadata
        rule_set = latest.rule_set if rule_set is None else rule_set
    metadata = merged_metadata(
        merged_metadata(config.get("defaultMetadata"), metadata), config.get("overrideMetadata")
    )
    rule_set = merged_rule_sets(
        merged_rule_sets(config.get("defaultRuleSet"), rule_set), config.get("overrideRuleSet")
    )
    if new_version is not None and (request.version != 0 or version_of(metadata) is not None):
        metadata = with_version(metadata, new_version)
    request.metadata, request.rule_set = metadata, rule_set
