"""Registrations that the controller refuses, and heartbeats."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.broker import lifecycle as lifecycle_module
from bowstring.engine.broker.lifecycle import BrokerLifecycle, RegistrationError
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.requests.listeners import Listener
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from bowstring.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tests.support.waiting import FOR_EVER_MS, HANG_S, pause_async, wait_until_async

FOR_EVER = float("inf")


class Refusing:
    """A quorum whose controller answers with these errors, the last of them again and again."""

    def __init__(self, *errors, **features):
        self.errors = list(errors)
        self.image = SimpleNamespace(
            features={name.replace("_", "."): level for name, level in features.items()}
        )

    async def ask_leader(self, request):
        error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        return BrokerRegistrationResponse(error_code=error.code)


def refusal(quorum, timeout_ms=250):
    configs = BrokerConfigs({"initial.broker.registration.timeout.ms": str(timeout_ms)})
    directories = SimpleNamespace(cluster_id="cluster", clean_epoch=-1, ids=list)
    lifecycle = BrokerLifecycle(quorum, configs, directories, node_id=1, listeners=list)
    with pytest.raises(RegistrationError) as caught:
        asyncio.run(lifecycle.register())
    return str(caught.value)


def test_a_level_that_this_version_lacks_is_named_once_and_tried_again(caplog):
    said = refusal(Refusing(Errors.UNSUPPORTED_VERSION, group_version=2, metadata_version=30))
    assert "group.version at level 2" in said
    assert "initial.broker.registration.timeout.ms" in said
    warnings = [line for line in caplog.messages if "does not register" in line]
    assert len(warnings) == 1


def test_other_refusals_say_why():
    assert "does not accept the features" in refusal(Refusing(Errors.UNSUPPORTED_VERSION))
    assert "another one" in refusal(Refusing(Errors.INCONSISTENT_CLUSTER_ID))
    assert "node.id=1 is registered" in refusal(Refusing(Errors.DUPLICATE_BROKER_REGISTRATION))
    assert "INVALID_REQUEST" in refusal(Refusing(Errors.UNSUPPORTED_VERSION, Errors.INVALID_REQUEST))


class Beating:
    """A quorum whose controller answers heartbeats; the brokers of its image are 1 and 2.

    Attributes:
        wanting: How many times the controller delays a broker that wants to stop.
        is_silent: Whether there is no controller.
        is_stale: Whether the controller refuses the broker's epoch.
        has_failed: Whether this node's replica of the metadata log has failed.
        lost: Whether the processes of a majority of the voters have ended.
        registered: The features that the broker registered with.
    """

    def __init__(self):
        self.heard = []
        self.wanting = 0
        self.is_silent = self.lost = self.is_stale = self.has_failed = False
        self.end_offset = 7
        self.other = SimpleNamespace(id=2, fenced=False, in_controlled_shutdown=False)
        self.own = SimpleNamespace(id=1, epoch=5, fenced=False, in_controlled_shutdown=False)
        self.image = SimpleNamespace(brokers={1: self.own, 2: self.other})

    async def ask_leader(self, request):
        if isinstance(request, BrokerRegistrationRequest):
            self.registered = {each.name for each in request.features}
            return BrokerRegistrationResponse(broker_epoch=5)
        if self.is_silent:
            raise KafkaError(Errors.NOT_CONTROLLER, "no controller is active")
        self.heard.append(request.current_metadata_offset)
        if self.is_stale:
            return BrokerHeartbeatResponse(error_code=Errors.STALE_BROKER_EPOCH.code)
        self.wanting -= request.want_shut_down
        may_stop = request.want_shut_down and self.wanting < 0
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False, should_shut_down=may_stop)

    async def has_lost_majority(self):
        return self.lost

    async def reach(self, offset):
        pass

    async def catch_up(self):
        pass


def test_a_broker_that_stops_does_not_wait_for_the_intervals_of_others():
    async def scenario():
        quorum = Beating()
        configs = BrokerConfigs(
            {"broker.heartbeat.interval.ms": str(FOR_EVER_MS), "controlled.shutdown.enable": "false"}
        )
        directories = SimpleNamespace(cluster_id="cluster", clean_epoch=-1, ids=list, opened=[])
        lifecycle = BrokerLifecycle(quorum, configs, directories, node_id=1, listeners=list)
        await lifecycle.register()
        await lifecycle.unfence(FOR_EVER)
        before = len(quorum.heard)
        lifecycle.note_applied((), 8, 1)  # no broker stops
        quorum.other.in_controlled_shutdown, quorum.end_offset = True, 9
        lifecycle.note_applied((), 9, 1)
        async with asyncio.timeout(HANG_S):
            while len(quorum.heard) == before or quorum.heard[-1] != 8:
                await asyncio.sleep(0)
        await lifecycle.stop()

    asyncio.run(scenario())


async def started(quorum):
    """A broker with a very long heartbeat interval; only events make it send one sooner."""
    configs = BrokerConfigs({"broker.heartbeat.interval.ms": str(FOR_EVER_MS)})
    directories = SimpleNamespace(cluster_id="cluster", clean_epoch=-1, ids=list, opened=[])
    lifecycle = BrokerLifecycle(quorum, configs, directories, node_id=1, listeners=list)
    await lifecycle.register()
    await lifecycle.unfence(FOR_EVER)
    return lifecycle


def test_a_broker_is_unfenced_once_its_own_image_says_so(caplog, monkeypatch):
    """Before that, its metadata would list no broker: librdkafka then forgets all brokers for ever."""
    monkeypatch.setattr(lifecycle_module, "_STILL_FENCED_S", 0.01)

    def is_told(words):
        return any(words in line.facts.get("detail", "") for line in caplog.records if hasattr(line, "facts"))

    async def scenario():
        quorum = Beating()
        configs = BrokerConfigs({"broker.heartbeat.interval.ms": str(FOR_EVER_MS)})
        directories = SimpleNamespace(cluster_id="cluster", clean_epoch=-1, ids=list, opened=[])
        lifecycle = BrokerLifecycle(quorum, configs, directories, node_id=1, listeners=list)
        await lifecycle.register()
        quorum.own.fenced, quorum.is_silent = True, True
        unfenced = asyncio.ensure_future(lifecycle.unfence(FOR_EVER))
        await wait_until_async(lambda: is_told("no controller is active"))
        quorum.is_silent = False
        await wait_until_async(lambda: is_told("has not applied the record yet"))
        quorum.own.fenced, quorum.own.epoch = False, 4
        lifecycle.note_applied((), 8, 1)
        assert not lifecycle.is_fenced and not unfenced.done()
        quorum.own.epoch = 5
        lifecycle.note_applied((), 9, 1)
        await unfenced
        await lifecycle.stop()

    asyncio.run(scenario())


def test_a_broker_that_is_not_unfenced_in_time_gives_up():
    async def scenario():
        quorum = Beating()
        quorum.own.fenced = True
        configs = BrokerConfigs({"controlled.shutdown.enable": "false"})
        directories = SimpleNamespace(cluster_id="cluster", clean_epoch=-1, ids=list, opened=[])
        lifecycle = BrokerLifecycle(quorum, configs, directories, node_id=1, listeners=list)
        await lifecycle.register()
        with pytest.raises(RegistrationError, match=r"server\.max\.startup\.time\.ms"):
            await lifecycle.unfence(asyncio.get_running_loop().time() + 0.05)
        await lifecycle.stop()

    asyncio.run(scenario())


def test_a_broker_that_stops_asks_again_soon_until_it_may(caplog):
    async def scenario():
        quorum = Beating()
        quorum.wanting = 3
        lifecycle = await started(quorum)
        async with asyncio.timeout(HANG_S):
            await lifecycle.stop()

    asyncio.run(scenario())
    assert "did not confirm" not in caplog.text


def test_a_broker_does_not_wait_for_a_controller_that_cannot_be(monkeypatch, caplog):
    """As for the last broker of a cluster whose nodes all stop."""
    monkeypatch.setattr(lifecycle_module, "NO_CONTROLLER_S", FOR_EVER_MS)
    monkeypatch.setattr(lifecycle_module, "STOP_TIMEOUT_S", FOR_EVER_MS)

    async def scenario():
        quorum = Beating()
        lifecycle = await started(quorum)
        quorum.is_silent = quorum.lost = True
        async with asyncio.timeout(HANG_S):
            await lifecycle.stop()

    asyncio.run(scenario())
    assert "did not confirm" in caplog.text


def test_a_broker_whose_metadata_log_has_failed_does_not_wait(monkeypatch, caplog):
    monkeypatch.setattr(lifecycle_module, "NO_CONTROLLER_S", FOR_EVER_MS)
    monkeypatch.setattr(lifecycle_module, "STOP_TIMEOUT_S", FOR_EVER_MS)

    async def scenario():
        quorum = Beating()
        lifecycle = await started(quorum)
        quorum.is_silent = quorum.has_failed = True
        async with asyncio.timeout(HANG_S):
            await lifecycle.stop()

    asyncio.run(scenario())
    assert "did not confirm" in caplog.text


def test_a_broker_waits_for_a_controller_while_one_can_be_elected():
    async def scenario():
        quorum = Beating()
        lifecycle = await started(quorum)
        quorum.is_silent = True
        stopping = asyncio.ensure_future(lifecycle.stop())
        await pause_async(2 * lifecycle_module.NO_MAJORITY_S, "it goes on waiting")
        assert not stopping.done()
        quorum.is_silent = False
        async with asyncio.timeout(HANG_S):
            await stopping
        assert quorum.wanting < 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("registered", "words"),
    [
        ({}, "no longer registered"),
        ({1: SimpleNamespace(id=1, epoch=9)}, "another process has registered"),
        ({1: SimpleNamespace(id=1, epoch=5)}, "does not have this broker epoch yet"),
    ],
)
def test_a_broker_whose_epoch_is_refused_says_once_why(caplog, registered, words):
    async def scenario():
        quorum = Beating()
        lifecycle = await started(quorum)
        await lifecycle.unfence(FOR_EVER)
        quorum.is_stale, quorum.image.brokers = True, registered
        before = len(quorum.heard)
        await wait_until_async(lambda: len(quorum.heard) > before + 2)
        said = [each for each in caplog.messages if words in each]
        quorum.is_stale, quorum.image.brokers = False, {1: quorum.own}
        await lifecycle.stop()
        return said

    assert len(asyncio.run(scenario())) == 1


def test_a_registration_says_whose_it_is():
    """Its `bowstring.version` keeps `migrate-dir` from taking the directories for Kafka's."""

    async def scenario():
        quorum = Beating()
        lifecycle = await started(quorum)
        await lifecycle.stop()
        return quorum.registered

    assert "bowstring.version" in asyncio.run(scenario())


def test_listeners_are_registered_with_their_security_protocols():
    protocols = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    asked = []

    class Accepting(Refusing):
        async def ask_leader(self, request):
            asked.append(request)
            return BrokerRegistrationResponse(error_code=Errors.INCONSISTENT_CLUSTER_ID.code)

    directories = SimpleNamespace(cluster_id="cluster", clean_epoch=-1, ids=list)
    lifecycle = BrokerLifecycle(
        *(Accepting(), BrokerConfigs(), directories),
        node_id=1,
        listeners=lambda: [Listener(each, "host", 9092, each) for each in protocols],
    )
    with pytest.raises(RegistrationError):
        asyncio.run(lifecycle.register())
    found = [(each.name, each.security_protocol) for each in asked[0].listeners]
    assert found == [(name, number) for number, name in enumerate(protocols)]
