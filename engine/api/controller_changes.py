"""Handles requests on the active controller that a node alone answers in the same way: changes of topics and
configs.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TypedDict

from bowstring.engine.api.request_refusals import refusal
from bowstring.engine.api.table import TABLE
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.controller.service import QuorumController
from bowstring.engine.metadata.committer import Committer
from bowstring.engine.metadata.image import ChangingImage, ImageChange
from bowstring.engine.metadata.replica_placer import Randomness
from bowstring.engine.requests.binding import bound
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.schema import MetadataRecord, Response

if TYPE_CHECKING:
    from bowstring.engine.requests.request import Request


class Commits:
    """Commits what is decided. Brokers carry the changes out when they follow the log."""

    async def commit(self, change: ImageChange, records: Sequence[MetadataRecord]) -> None:
        """Commits records, within the change that they were decided in."""
        await change.commit(records)


class Parts(TypedDict):
    """The parts that these handlers state, as a controller has them.

    Attributes:
        node_id: None: the configs of any broker may change.
        metadata: The controller, whose image has what is decided.
        random: For the placement of replicas.
    """

    configs: BrokerConfigs
    time_slices: TimeSlices
    node_id: int | None
    metadata: ChangingImage
    committer: Committer
    random: Randomness


async def handle(
    request: "Request", *, configs: BrokerConfigs, controller: QuorumController, time_slices: TimeSlices
) -> Response:
    """Decides with the controller's image, and answers once the records are committed.

    Behaviour: a node that is not the active controller answers NOT_CONTROLLER for each topic or resource;
    REQUEST_TIMED_OUT when its turn did not come within request.timeout.ms.

    Versions: as on a node alone.
    """
    shared = import_module(f"bowstring.engine.api.{TABLE[request.api_key].broker}")
    parts = Parts(
        configs=configs,
        time_slices=time_slices,
        node_id=None,
        metadata=controller,
        committer=Commits(),
        random=controller.random,
    )
    try:
        answer: Response = await bound(shared.handle, parts.__getitem__)(request)
    except KafkaError as error:
        refused = refusal(request.api_key, request.version, request.body, error)
        assert refused is not None, request.api_key
        return refused
    return answer
