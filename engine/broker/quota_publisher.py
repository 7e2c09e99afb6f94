"""Publishes the client quotas of the image to a data plane and its dispatcher."""

from typing import TYPE_CHECKING, Any, Final

from bowstring.engine.metadata.client_quotas_image import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    ClientQuotasImage,
    limit_of,
)

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring._native.server.plane_quotas import PlaneQuotas
    from bowstring.engine.broker.dispatcher import Dispatcher
    from bowstring.engine.quorum.service import QuorumService

_DEFAULT: Final = ""


class QuotaPublisher:
    """Follows the image, from `start` on. Until there is a quota, nothing is imported for them.

    Attributes:
        quotas: Those of the data plane; None while there never were any.
    """

    quotas: "PlaneQuotas | None"

    def __init__(self, quorum: "QuorumService", plane: "DataPlane", dispatcher: "Dispatcher") -> None:
        self.quotas = None
        self._quorum = quorum
        self._plane = plane
        self._dispatcher = dispatcher
        self._version = 0

    def start(self) -> None:
        """Begins with the image of now. Call on the control loop."""
        self._quorum.on_applied.append(self._look)
        self._quorum.on_snapshot.append(self._look)
        self._look()

    def _look(self, *change: Any) -> None:
        image = self._quorum.image.client_quotas
        if image.version != self._version:
            self._version = image.version
            self._publish(image)

    def _publish(self, image: ClientQuotasImage) -> None:
        if self.quotas is None:
            from bowstring._native.server.plane_quotas import PlaneQuotas
            from bowstring.engine.broker.request_throttle import RequestThrottle

            self.quotas = PlaneQuotas(self._plane)
            self._dispatcher.throttle = RequestThrottle(self.quotas)
        self.quotas.set(_rules(image))


def _rules(image: ClientQuotasImage) -> list[tuple[int, str | None, str | None, float]]:
    """Returns the rules for clients in the form of `PlaneQuotas.set`."""
    from bowstring._native.server.plane_quotas import FETCH, PRODUCE, REQUEST

    kinds = {PRODUCER_BYTE_RATE: PRODUCE, CONSUMER_BYTE_RATE: FETCH, REQUEST_PERCENTAGE: REQUEST}
    rules = []
    for entity, values in image.entities.items():
        parts = dict(entity)
        if IP in parts:
            continue
        user, client_id = ((parts[kind] or _DEFAULT) if kind in parts else None for kind in (USER, CLIENT_ID))
        for key, bound in values.items():
            if key in kinds:
                rules.append((kinds[key], user, client_id, limit_of(bound)))
    return rules
