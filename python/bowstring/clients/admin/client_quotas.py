"""Implements Admin's methods for client quotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from bowstring.clients.admin.calls import AdminCalls
from bowstring.clients.errors import ConfigError, broker_error
from bowstring.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from bowstring.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

EntityType = Literal["user", "client-id", "ip"]
ENTITY_TYPES: tuple[EntityType, ...] = ("user", "client-id", "ip")
# Types with their names; None is the default for all that have none of their own.
QuotaEntity = frozenset[tuple[str, str | None]]
# DescribeClientQuotasRequest: how names are compared.
EXACT, DEFAULT, ANY = range(3)


class AdminClientQuotas(AdminCalls):
    """Mixed into Admin."""

    def describe_client_quotas(
        self,
        entity: Mapping[str, str | None] | None = None,
        *,
        any_name: tuple[str, ...] = (),
        strict: bool = False,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Returns quotas by entity: pairs of type and name, where None is the default.

        Args:
            entity: names by type ("user", "client-id", "ip") that entities must have; None for all entities.
            any_name: types that entities must have with whatever name.
            strict: entities may have no other types.

        Raises:
            ConfigError: there is no such type of entity.
            BrokerError: the broker refuses.
        """
        components = [
            ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)
            for kind, name in (entity or {}).items()
        ]
        components += [ComponentData(entity_type=kind, match_type=ANY, match=None) for kind in any_name]
        _check([*(entity or {}), *any_name])
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        response = self._call(self._any_node, DescribeClientQuotasRequest, request)
        if response.error_code:
            raise broker_error(response.error_code, "describing quotas", response.error_message)
        return {
            frozenset((part.entity_type, part.entity_name) for part in entry.entity): {
                each.key: each.value for each in entry.values
            }
            for entry in response.entries or ()
        }

    def alter_client_quotas(
        self,
        entity: Mapping[str, str | None],
        quotas: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Sets or removes quotas of one entity; the others stay.

        Args:
            entity: names by type: "user", "client-id", both, or "ip"; the name None is the default for all
                that have no quota of their own.
            quotas: values by name: producer_byte_rate and consumer_byte_rate in bytes/s,
                request_percentage, controller_mutation_rate in partitions/s; of an "ip"
                connection_creation_rate in connections/s. None removes one.
            validate_only: checks and changes nothing.

        Raises:
            ConfigError: there is no such type of entity, or the entity is empty.
            BrokerError: the broker refuses, and says why.
        """
        _check(entity)
        if not entity:
            raise ConfigError(f"entity: give names of {', '.join(ENTITY_TYPES)}")
        entry = AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[
                OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
                for key, value in quotas.items()
            ],
        )
        request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
        response = self._to_controller(AlterClientQuotasRequest, request)
        for result in response.entries:
            if result.error_code:
                raise broker_error(result.error_code, "changing quotas", result.error_message)


def _check(kinds: Any) -> None:
    for kind in kinds:
        if kind not in ENTITY_TYPES:
            raise ConfigError(f"a quota's entity has names of {', '.join(ENTITY_TYPES)}, not of {kind!r}")
