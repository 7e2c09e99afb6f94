"""Handles DescribeClientQuotas: lists the client quotas that match a filter (KIP-546)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from bowstring.engine.metadata.client_quotas_image import CLIENT_ID, IP, USER, Entity
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.request import Request

_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2


async def handle(request: "Request", *, metadata: "Metadata") -> DescribeClientQuotasResponse:
    """Returns the entities that match, each with its quotas.

    Behaviour: an entity matches if it has each type of the filter, with its name (EXACT), as the default of
    the type (DEFAULT) or with any of the two (SPECIFIED). A strict filter leaves out entities that have other
    types besides. A filter that cannot match is INVALID_REQUEST, an unknown type UNSUPPORTED_VERSION.

    Versions: 1 changes only the encoding.
    """
    body: DescribeClientQuotasRequest = request.body
    try:
        names, any_of = _filter(body.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.detail or error.error.message, entries=None
        )
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=key, value=value) for key, value in values.items()],
        )
        for entity, values in metadata.image.client_quotas.entities.items()
        if _matches(entity, names, any_of, strict=body.strict)
    ]
    return DescribeClientQuotasResponse(entries=entries)


def _filter(components: Sequence[ComponentData]) -> tuple[dict[str, str | None], set[str]]:
    """Returns the names by type, and the types of which any name matches."""
    names: dict[str, str | None] = {}
    any_of: set[str] = set()
    for each in components:
        kind = each.entity_type
        if not kind:
            raise KafkaError(Errors.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in names or kind in any_of:
            raise KafkaError(
                Errors.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."
            )
        if kind not in (IP, USER, CLIENT_ID):
            raise KafkaError(Errors.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        _check_match(each)
        if each.match_type == _SPECIFIED:
            any_of.add(kind)
        else:
            names[kind] = each.match
    kinds = names.keys() | any_of
    if IP in kinds and len(kinds) > 1:
        raise KafkaError(
            Errors.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user "
            "or clientId filter component.",
        )
    return names, any_of


def _check_match(component: ComponentData) -> None:
    if component.match_type not in (_EXACT, _DEFAULT, _SPECIFIED):
        raise KafkaError(Errors.INVALID_REQUEST, f"Unknown match type {component.match_type}")
    if component.match_type == _EXACT and component.match is None:
        raise KafkaError(
            Errors.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null."
        )
    if component.match_type != _EXACT and component.match is not None:
        name = "MATCH_TYPE_DEFAULT" if component.match_type == _DEFAULT else "MATCH_TYPE_SPECIFIED"
        raise KafkaError(
            Errors.INVALID_REQUEST, f"Request specified {name}, but also specified a match string."
        )


def _matches(entity: Entity, names: dict[str, str | None], any_of: set[str], *, strict: bool) -> bool:
    parts = dict(entity)
    if strict and len(parts) != len(names) + len(any_of):
        return False
    return any_of <= parts.keys() and all(
        kind in parts and parts[kind] == name for kind, name in names.items()
    )
