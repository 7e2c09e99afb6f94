"""Holds the client quotas of the cluster (KIP-546), as the records of the metadata log set them. Pure."""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final

from bowstring.protocol.records.cluster_metadata.settings import ClientQuotaRecord, EntityData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

NO_LIMIT: Final = float("inf")
_RATE_MAX: Final = float(1 << 63)
"""Greater rates limit nothing. Below, nothing that is calculated from a rate becomes infinite."""

Entity = tuple[tuple[str, str | None], ...]
"""Type and name of each part, in the order of the types. A name of None is the default of its type."""

_VERSIONS: Final = count(1)
"""Across all images of the process: a snapshot makes a new image."""


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Returns the entity with these parts; of several of one type the last one counts, as in Kafka."""
    return tuple(sorted(dict(parts).items()))


def limit_of(value: float) -> float:
    """Returns what a quota limits to: `NO_LIMIT` for an infinite one and for values that controllers refuse,
    which another controller may have written: NaN, zero and negative ones.
    """
    return value if 0 < value < _RATE_MAX else NO_LIMIT


class ClientQuotasImage:
    """The quotas of each entity.

    Attributes:
        entities: Values by key. Do not modify.
        version: Changes with each record. No two images have the same version with different quotas.
    """

    def __init__(self) -> None:
        self.entities: dict[Entity, dict[str, float]] = {}
        self.version = 0

    def apply(self, record: ClientQuotaRecord) -> None:
        """Sets a quota, or removes it; removing an unknown one has no effect."""
        self.version = next(_VERSIONS)
        entity = entity_of((each.entity_type, each.entity_name) for each in record.entity)
        values = self.entities.get(entity, {})
        if not record.remove:
            self.entities[entity] = values | {record.key: record.value}
        elif record.key in values:
            left = {key: value for key, value in values.items() if key != record.key}
            if left:
                self.entities[entity] = left
            else:
                del self.entities[entity]

    def find(self, key: str, user: str, client_id: str) -> tuple[tuple[str, str], float] | None:
        """Returns the quota of a client, and the user and the client id of those who share its use; one of
        both is empty where all share it. None: the client has no quota, or it is infinite.

        The order is Kafka's: the most specific entity comes first, and a user before a client id. As in
        Kafka, the default of client ids is not for clients without one.
        """
        users: tuple[str | None, ...] = (user, None) if user else (None,)
        client_ids: tuple[str | None, ...] = (client_id, None) if client_id else ()
        for name in users:
            for each in client_ids:
                bound = self._value(((CLIENT_ID, each), (USER, name)), key)
                if bound is not None:
                    return None if bound == NO_LIMIT else ((user, client_id), bound)
            bound = self._value(((USER, name),), key)
            if bound is not None:
                return None if bound == NO_LIMIT else ((user, ""), bound)
        for each in client_ids:
            bound = self._value(((CLIENT_ID, each),), key)
            if bound is not None:
                return None if bound == NO_LIMIT else (("", client_id), bound)
        return None

    def _value(self, entity: Entity, key: str) -> float | None:
        values = self.entities.get(entity)
        return limit_of(values[key]) if values is not None and key in values else None

    def copy(self) -> "ClientQuotasImage":
        """Returns the same quotas, which later records do not change."""
        new = ClientQuotasImage()
        new.entities = self.entities.copy()
        new.version = self.version
        return new

    def records(self) -> Iterator[ClientQuotaRecord]:
        """Returns the records that lead from no quotas to these."""
        for entity, values in self.entities.items():
            for key, value in values.items():
                yield ClientQuotaRecord(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    key=key,
                    value=value,
                )

    def __len__(self) -> int:
        return sum(map(len, self.entities.values()))
