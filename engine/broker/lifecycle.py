"""Registers a broker with the active controller, and sends it heartbeats until it may stop (KIP-631)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from bowstring.engine import background, event_log
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import SECURITY_PROTOCOLS
from bowstring.engine.metadata.features import unsupported_levels
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.requests.listeners import Listener
from bowstring.engine.storage.log_directories import LogDirectories
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import BOWSTRING_VERSION, REGISTERED_BY_BOWSTRING, SUPPORTED_FEATURES
from bowstring.protocol.ids import random_uuid
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from bowstring.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from bowstring.protocol.messages.broker_registration import Listener as RegisteredListener

_RETRY_S: Final = 0.1
_STOP_RETRY_S: Final = 0.02
"""Between heartbeats while the controller moves leaders away: its consent ends the wait."""
STOP_TIMEOUT_S: Final = 30.0
"""How long a broker waits until the controller has moved its leaders away."""


NO_CONTROLLER_S: Final = 5.0
"""How long a broker that stops waits for a controller that answers."""
NO_MAJORITY_S: Final = 0.5
"""How long it waits while so many controller processes have ended that none can be active: one may start
again."""
_STILL_FENCED_S: Final = 10.0
"""How often the log says that a starting broker is still fenced."""


class RegistrationError(ConfigError):
    """The controller does not take this broker in; the message says why."""


class BrokerLifecycle:
    """One incarnation of a broker in its cluster.

    Attributes:
        epoch: What the registration returned; -1 before.
        is_fenced: As the controller said last.
    """

    def __init__(
        self,
        quorum: QuorumService,
        configs: BrokerConfigs,
        directories: LogDirectories,
        *,
        node_id: int,
        listeners: Callable[[], Sequence[Listener]],
    ) -> None:
        self.epoch = -1
        self.is_fenced = True
        self._quorum = quorum
        self._configs = configs
        self._directories = directories
        self._node_id = node_id
        self._listeners = listeners
        self._incarnation_id = random_uuid()
        self._wants_fence = True
        self._wants_stop = False
        self._may_stop = asyncio.Event()
        self._unfenced = asyncio.Event()
        self._hurry = asyncio.Event()
        self._beaten = asyncio.Event()
        self._heard_s = 0.0
        self._told_features = ""
        self._refusal = ""
        self._told_stale = ""
        self._beating: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ registration

    async def register(self) -> None:
        """Registers this incarnation, and waits until this node has it.

        Raises:
            RegistrationError: It is refused, or initial.broker.registration.timeout.ms is over.
        """
        timeout_s = self._configs.value("initial.broker.registration.timeout.ms") / 1000
        said = "no controller was found; check controller.quorum.bootstrap.servers (or voters)"
        try:
            async with asyncio.timeout(timeout_s):
                while self.epoch < 0:
                    said = await self._try_to_register() or said
                await self._quorum.reach(self.epoch + 1)
                await self._quorum.catch_up()
        except TimeoutError as error:
            raise RegistrationError(
                f"the broker could not register within {timeout_s:g} s "
                f"(initial.broker.registration.timeout.ms): {said}"
            ) from error
        self._beating = background.keep_running(self._beat, "heartbeats")

    async def _try_to_register(self) -> str | None:
        """Returns why the registration has failed, if it can be repeated."""
        request = BrokerRegistrationRequest(
            broker_id=self._node_id,
            cluster_id=self._directories.cluster_id,
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
                for name, (low, high) in {
                    **SUPPORTED_FEATURES,
                    BOWSTRING_VERSION: REGISTERED_BY_BOWSTRING,
                }.items()
            ],
            rack=self._configs.value("broker.rack"),
            log_dirs=self._directories.ids(),
            previous_broker_epoch=self._directories.clean_epoch,
        )
        try:
            answer: BrokerRegistrationResponse = await self._quorum.ask_leader(request)
        except KafkaError as error:
            await asyncio.sleep(_RETRY_S)
            return str(error)
        if answer.error_code == 0:
            self.epoch = answer.broker_epoch
            return None
        error_row = Errors.of(answer.error_code)
        if error_row is Errors.INCONSISTENT_CLUSTER_ID:
            raise RegistrationError(
                f"this node belongs to cluster {self._directories.cluster_id}, and the controllers to "
                "another one; correct controller.quorum.bootstrap.servers, or name another directory"
            )
        if error_row is Errors.DUPLICATE_BROKER_REGISTRATION:
            said = (
                f"another broker with node.id={self._node_id} is registered and alive; give this one another "
                "node.id, or stop the other one"
            )
        elif error_row is Errors.UNSUPPORTED_VERSION:
            said = self._tell_features()
        else:
            said = f"{error_row.name}: {error_row.message}"
        await asyncio.sleep(_RETRY_S)
        return said

    def _tell_features(self) -> str:
        """Names the levels that this version lacks, once. The operator may change them meanwhile."""
        said = "; ".join(unsupported_levels(self._quorum.image.features))
        if said != self._told_features:
            self._told_features = said
            if said:
                event_log.warning("the controller does not register this broker; see detail", detail=said)
        return said or "the controller does not accept the features of this broker"

    # ------------------------------------------------------------ heartbeats

    async def unfence(self, deadline_s: float) -> None:
        """Reports that this broker can serve, and waits until it may and its own image says so.

        Args:
            deadline_s: Of the event loop's clock.

        Raises:
            RegistrationError: It is too late.
        """
        loop = asyncio.get_running_loop()
        self._wants_fence = False
        self._hurry.set()
        while not self._unfenced.is_set():
            try:
                async with asyncio.timeout_at(min(deadline_s, loop.time() + _STILL_FENCED_S)):
                    await self._unfenced.wait()
            except TimeoutError:
                why = self._why_fenced()
                if loop.time() >= deadline_s:
                    raise RegistrationError(
                        f"the broker was not unfenced within server.max.startup.time.ms: {why}"
                    ) from None
                event_log.warning(
                    "the controller has not unfenced this broker yet, so it accepts no clients; see detail",
                    detail=why,
                    broker_epoch=self.epoch,
                    metadata_offset=self._quorum.end_offset - 1,
                )

    def _why_fenced(self) -> str:
        if self._refusal:
            return self._refusal
        if self.is_fenced:
            return "the controller waits until this broker has the metadata of its registration"
        return "this node has not applied the record yet that unfences it"

    def note_applied(self, *_: object) -> None:
        """Checks whether the image has this broker as unfenced, and hastens the next heartbeat, which reports
        how far this broker is: one that stops waits for that.

        Call for each change of the image. Kafka waits for the next interval.
        """
        self._look_whether_unfenced()
        if any(
            each.in_controlled_shutdown and not each.fenced and each.id != self._node_id
            for each in self._quorum.image.brokers.values()
        ):
            self._hurry.set()

    def _look_whether_unfenced(self) -> None:
        own = self._quorum.image.brokers.get(self._node_id)
        if not self.is_fenced and own is not None and own.epoch == self.epoch and not own.fenced:
            self._unfenced.set()

    async def _beat(self) -> None:
        interval_s = self._configs.value("broker.heartbeat.interval.ms") / 1000
        while True:
            self._hurry.clear()
            pause_s = interval_s
            heard = await self._send_heartbeat()
            if heard:
                self._heard_s = asyncio.get_running_loop().time()
            self._beaten.set()
            if not heard or self.is_fenced or self._wants_stop:
                pause_s = min(interval_s, _STOP_RETRY_S if heard and self._wants_stop else _RETRY_S)
            try:
                async with asyncio.timeout(pause_s):
                    await self._hurry.wait()
            except TimeoutError:
                pass

    async def _send_heartbeat(self) -> bool:
        offline = [each.directory_id for each in self._directories.opened if each.health.failed]
        request = BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._quorum.end_offset - 1,
            want_fence=self._wants_fence,
            want_shut_down=self._wants_stop,
            offline_log_dirs=offline,
        )
        try:
            answer: BrokerHeartbeatResponse = await self._quorum.ask_leader(request)
        except KafkaError as error:
            self._refusal = str(error)
            return False
        self._refusal = Errors.of(answer.error_code).message if answer.error_code else ""
        if answer.error_code == Errors.STALE_BROKER_EPOCH.code:
            self._tell_stale()
            return False
        self._told_stale = ""
        if answer.error_code:
            return False
        if self.is_fenced and not answer.is_fenced:
            event_log.info("the controller has unfenced this broker", broker_epoch=self.epoch)
        elif answer.is_fenced and not self.is_fenced and not self._wants_stop:
            event_log.warning("the controller has fenced this broker", broker_epoch=self.epoch)
        self.is_fenced = answer.is_fenced
        self._look_whether_unfenced()
        if answer.should_shut_down:
            self._may_stop.set()
        return True

    def _tell_stale(self) -> None:
        """Logs once why the controller refuses this broker epoch; heartbeats continue, as in Kafka."""
        own = self._quorum.image.brokers.get(self._node_id)
        if own is None:
            said = "this broker is no longer registered and leads nothing; restart it to register it again"
        elif own.epoch > self.epoch:
            said = (
                "another process has registered with this node.id; stop this one, or give it another node.id"
            )
        else:
            said = "the controller does not have this broker epoch yet; the heartbeat is repeated"
        if said != self._told_stale:
            self._told_stale = said
            event_log.warning(said, broker_epoch=self.epoch)

    # ------------------------------------------------------------ the end

    async def _until_it_may_stop(self) -> None:
        """Waits for the controller's consent; not for one that does not answer, as when all nodes stop, nor
        if this node's replica of the metadata log has failed: it cannot reach the controller without it.
        """
        loop = asyncio.get_running_loop()
        self._heard_s = possible_s = loop.time()
        while not self._may_stop.is_set() and loop.time() < self._heard_s + NO_CONTROLLER_S:
            if self._quorum.has_failed:
                return
            try:
                async with asyncio.timeout(_RETRY_S):
                    await self._beaten.wait()
            except TimeoutError:
                pass
            self._beaten.clear()
            if loop.time() < self._heard_s + _RETRY_S or not await self._quorum.has_lost_majority():
                possible_s = loop.time()
            elif loop.time() >= possible_s + NO_MAJORITY_S:
                return

    async def stop(self) -> None:
        """Requests a controlled shutdown, waits until the leaders are elsewhere, and ends the heartbeats."""
        if self._beating is None:
            return
        if self._configs.value("controlled.shutdown.enable"):
            self._wants_stop = True
            self._hurry.set()
            try:
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await self._until_it_may_stop()
            except TimeoutError:
                pass
            if not self._may_stop.is_set():
                event_log.warning("the controller did not confirm the stop; the broker stops without that")
        self._beating.cancel()
        await asyncio.wait({self._beating})
        self._beating = None
