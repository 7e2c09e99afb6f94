"""Registers a controller with the active one: its features and addresses (KIP-919)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from bowstring.engine import background, event_log
from bowstring.engine.configs.listener_configs import SECURITY_PROTOCOLS
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.requests.listeners import Listener
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import SUPPORTED_FEATURES
from bowstring.protocol.ids import random_uuid
from bowstring.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
)
from bowstring.protocol.messages.controller_registration import Listener as RegisteredListener

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 10.0


class ControllerRegistration:
    """One incarnation of a controller; `start` registers it in the background, however long that takes."""

    def __init__(
        self, quorum: QuorumService, node_id: int, listeners: Callable[[], Sequence[Listener]]
    ) -> None:
        self._quorum = quorum
        self._node_id = node_id
        self._listeners = listeners
        self._incarnation_id = random_uuid()
        self._registering: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins. Call on the control loop."""
        self._registering = background.keep_running(self._register, "registration of a controller")

    def stop(self) -> None:
        """Gives up."""
        if self._registering is not None:
            self._registering.cancel()

    async def _register(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while (error := await self._try()) is not None:
            # Clusters below metadata.version 15 have no such registrations; they may rise later.
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            if error.error not in (Errors.NOT_CONTROLLER, Errors.UNSUPPORTED_VERSION):
                event_log.warning("the registration of this controller is repeated", detail=str(error))
            await asyncio.sleep(pause_s)

    async def _try(self) -> KafkaError | None:
        request = ControllerRegistrationRequest(
            controller_id=self._node_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                RegisteredListener(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=SECURITY_PROTOCOLS[each.protocol],
                )
                for each in self._listeners()
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
        )
        try:
            answer: ControllerRegistrationResponse = await self._quorum.ask_leader(request)
        except KafkaError as error:
            return error
        if answer.error_code == 0:
            return None
        return KafkaError(Errors.of(answer.error_code), answer.error_message)
