"""Decides about changes of client quotas (KIP-546)."""

from collections.abc import Collection
from typing import Final

from bowstring.engine.controller.decision import Decision, check_not_too_many
from bowstring.engine.metadata.client_quotas_image import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    ClientQuotasImage,
    Entity,
    entity_of,
)
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages import alter_client_quotas as messages
from bowstring.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)
from bowstring.protocol.records.cluster_metadata.settings import ClientQuotaRecord, EntityData
from bowstring.protocol.schema import MetadataRecord

_LONG: Final = ("a LONG", (1 << 63) - 1)
_INT: Final = ("an INT", (1 << 31) - 1)
_DOUBLE: Final = None
_OF_CLIENTS: Final = {
    PRODUCER_BYTE_RATE: _LONG,
    CONSUMER_BYTE_RATE: _LONG,
    REQUEST_PERCENTAGE: _DOUBLE,
    CONTROLLER_MUTATION_RATE: _DOUBLE,
}
_OF_ADDRESSES: Final = {CONNECTION_CREATION_RATE: _INT}
_FRACTION_MAX: Final = 1e-6


def alter_client_quotas(
    quotas: ClientQuotasImage, request: AlterClientQuotasRequest, *, unknown_hosts: Collection[str] = ()
) -> Decision[AlterClientQuotasResponse]:
    """Sets and removes quotas, each entity completely or not at all. As in Kafka, of several changes of one
    entity the first counts, and the answer for it is an error.

    Args:
        unknown_hosts: Names of hosts in the request that have no address.

    Raises:
        KafkaError: POLICY_VIOLATION: the request changes too much at once.
    """
    records: list[MetadataRecord] = []
    results: dict[Entity, KafkaError | None] = {}
    for entry in request.entries:
        entity = entity_of((each.entity_type, each.entity_name) for each in entry.entity)
        try:
            if entity in results or len({op.key for op in entry.ops}) < len(entry.ops):
                raise KafkaError(Errors.INVALID_REQUEST, f"Ignoring duplicate entity {_shown(entity)}")
            records += _changes(quotas, entity, entry, unknown_hosts)
            results[entity] = None
        except KafkaError as error:
            results[entity] = error
    check_not_too_many(len(records))
    answer = AlterClientQuotasResponse(entries=[_result(*each) for each in results.items()])
    return Decision([] if request.validate_only else records, answer)


def _changes(
    quotas: ClientQuotasImage,
    entity: Entity,
    entry: AlterClientQuotasRequestEntryData,
    unknown_hosts: Collection[str],
) -> list[ClientQuotaRecord]:
    limits = _checked(entity, unknown_hosts)
    now = quotas.entities.get(entity, {})
    changes = []
    for op in entry.ops:
        if not op.remove:
            _check_value(limits, op.key, op.value)
        if (op.key in now) if op.remove else now.get(op.key) != op.value:
            changes.append(
                ClientQuotaRecord(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    key=op.key,
                    value=0.0 if op.remove else op.value,
                    remove=op.remove,
                )
            )
    return changes


def _checked(entity: Entity, unknown_hosts: Collection[str]) -> dict[str, tuple[str, int] | None]:
    """Returns the quotas that an entity may have, each with the limit of its type."""
    if not entity:
        raise KafkaError(Errors.INVALID_REQUEST, "Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(Errors.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise KafkaError(Errors.INVALID_REQUEST, f"Empty {kind} not supported")
    parts = dict(entity)
    if IP not in parts:
        return _OF_CLIENTS
    if len(parts) > 1:
        raise KafkaError(
            Errors.INVALID_REQUEST,
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        )
    if parts[IP] in unknown_hosts:
        raise KafkaError(Errors.INVALID_REQUEST, f"{parts[IP]} is not a valid IP or resolvable host.")
    return dict(_OF_ADDRESSES)


def _check_value(limits: dict[str, tuple[str, int] | None], key: str, value: float) -> None:
    if key not in limits:
        raise KafkaError(Errors.INVALID_REQUEST, f"Invalid configuration key {key}")
    if not value > 0:
        raise KafkaError(Errors.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    limit = limits[key]
    if limit is None:
        return
    kind, highest = limit
    if value > highest:
        raise KafkaError(Errors.INVALID_REQUEST, f"Proposed value for {key} is too large for {kind}.")
    if value % 1.0 > _FRACTION_MAX:
        raise KafkaError(Errors.INVALID_REQUEST, f"{key} cannot be a fractional value.")


def _shown(entity: Entity) -> str:
    """Returns an entity as Java prints it."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _result(entity: Entity, error: KafkaError | None) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=0 if error is None else error.code,
        error_message=None if error is None else error.detail or error.error.message,
        entity=[messages.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )
