"""Queries share coordinators: directly if this broker is one, otherwise over the network."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from bowstring.engine import background, event_log
from bowstring.engine.network.broker_peers import BrokerPeers
from bowstring.engine.network.connection import NoAnswerError, UnsupportedByPeerError
from bowstring.engine.share.persister.interface import (
    ReadState,
    SharePartitionKey,
    StateSummary,
    WrittenState,
    coordinator_key,
)
from bowstring.engine.share.persister.state_apis import DELETE, INITIALIZE, READ, SUMMARY, WRITE, StateApi
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from bowstring.protocol.share_batches import StateBatch

_PURPOSE: Final = "share-persister"
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_AT_ONCE: Final = 1000
"""Most share partitions in one request."""
_PASSING: Final = frozenset(
    {
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.NOT_COORDINATOR,
        Errors.NETWORK_EXCEPTION,
        Errors.REQUEST_TIMED_OUT,
    }
)


class Coordinating(Protocol):
    """The share coordinator of this broker."""

    async def ensure_topic(self) -> None:
        """Creates ``__share_group_state`` on first use."""

    def leader_of(self, key: str, /) -> int | None:
        """Returns the broker that coordinates a key by the image."""

    async def serve(self, api_key: int, key: SharePartitionKey, data: Any, /) -> Any:
        """Carries out a request for one share partition; returns a partition's result."""


class _Call(NamedTuple):
    api: StateApi
    key: SharePartitionKey
    data: Any
    answer: "asyncio.Future[Any]"


class NetworkPersister:
    """Implements `Persister`. Used on the control loop only.

    Calls for another broker that come while a request is on its way there go together in the next one.

    Args:
        coordinator: Returns the share coordinator of this broker.
        peers: The other brokers.
        timeout_s: How long an answer may take.
        patience_s: How long a call is tried again while it fails with an error that passes.
        unknown_patience_s: The same while the topic is unknown, which it stays when it is deleted.
    """

    def __init__(
        self,
        coordinator: Callable[[], Coordinating],
        node_id: int,
        peers: BrokerPeers,
        *,
        timeout_s: float,
        patience_s: float = 15.0,
        unknown_patience_s: float = 2.0,
    ) -> None:
        self._coordinator = coordinator
        self._node_id = node_id
        self._peers = peers
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._unknown_patience_s = unknown_patience_s
        self._queues: dict[int, list[_Call]] = defaultdict(list)
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._stopped = False

    # ------------------------------------------------------------ the interface

    async def read_state(self, key: SharePartitionKey, leader_epoch: int) -> ReadState:
        """Reads the state, and fences leaders of older epochs. INVALID_REQUEST: it was never initialized."""
        data = read_share_group_state.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        found = await self._call(READ, key, data)
        batches = tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in found.state_batches
        )
        return ReadState(Errors.of(found.error_code), found.state_epoch, found.start_offset, batches)

    async def write_state(self, key: SharePartitionKey, written: WrittenState) -> Error:
        """Changes the state. INVALID_REQUEST: it was never initialized, or is deleted."""
        data = write_share_group_state.PartitionData(
            partition=key.partition,
            state_epoch=written.state_epoch,
            leader_epoch=written.leader_epoch,
            start_offset=written.start_offset,
            delivery_complete_count=written.delivery_complete_count,
            state_batches=[write_share_group_state.StateBatch(**each._asdict()) for each in written.batches],
        )
        return Errors.of((await self._call(WRITE, key, data)).error_code)

    async def read_summary(self, key: SharePartitionKey, leader_epoch: int = -1) -> StateSummary:
        """Reads the state without its batches."""
        data = read_share_group_state_summary.PartitionData(
            partition=key.partition, leader_epoch=leader_epoch
        )
        found = await self._call(SUMMARY, key, data)
        return StateSummary(
            Errors.of(found.error_code),
            found.state_epoch,
            found.leader_epoch,
            found.start_offset,
            found.delivery_complete_count,
        )

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Error:
        """Creates the state, or replaces it, with nothing delivered from `start_offset` on."""
        data = initialize_share_group_state.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        return Errors.of((await self._call(INITIALIZE, key, data)).error_code)

    async def delete(self, key: SharePartitionKey) -> Error:
        """Deletes the state; NONE if there is none."""
        data = delete_share_group_state.PartitionData(partition=key.partition)
        return Errors.of((await self._call(DELETE, key, data)).error_code)

    # ------------------------------------------------------------ calls

    async def _call(self, api: StateApi, key: SharePartitionKey, data: Any) -> Any:
        """Returns a partition's result. Tries again while errors pass."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        pause_s = _FIRST_PAUSE_S
        while True:
            found = await self._try(api, key, data)
            error = Errors.of(found.error_code)
            patience_s = self._patience_s if error in _PASSING else 0.0
            if error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
                patience_s = self._unknown_patience_s
            if self._stopped or loop.time() + pause_s > began_s + patience_s:
                return found
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _try(self, api: StateApi, key: SharePartitionKey, data: Any) -> Any:
        if self._stopped:
            return _failed(api, key, Errors.COORDINATOR_NOT_AVAILABLE)
        coordinator = self._coordinator()
        leader = coordinator.leader_of(coordinator_key(key))
        if leader == self._node_id:
            return await coordinator.serve(api.key, key, data)
        if leader is None:
            try:
                await coordinator.ensure_topic()
            except KafkaError as error:
                event_log.warning("the topic of share groups cannot be created", detail=str(error))
            return _failed(api, key, Errors.COORDINATOR_NOT_AVAILABLE)
        if self._peers.address(leader) is None:
            return _failed(api, key, Errors.COORDINATOR_NOT_AVAILABLE)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queues[leader].append(_Call(api, key, data, answer))
        if leader not in self._serving:
            self._serving[leader] = background.spawn(self._serve(leader), "state of share groups")
        return await answer

    async def _serve(self, leader: int) -> None:
        try:
            while queue := self._queues.pop(leader, None):
                together: dict[tuple[int, str], list[_Call]] = defaultdict(list)
                for call in queue:
                    together[call.api.key, call.key.group_id].append(call)
                for calls in together.values():
                    try:
                        await self._exchange(leader, calls)
                    except Exception:
                        _give_up(calls)
        finally:
            del self._serving[leader]

    async def _exchange(self, leader: int, calls: list[_Call]) -> None:
        """Queries in one request; a second call for the same share partition waits for the next."""
        now: dict[SharePartitionKey, _Call] = {}
        for call in calls:
            if call.key in now or len(now) >= _AT_ONCE:
                self._queues[leader].append(call)
            else:
                now[call.key] = call
        api = calls[0].api
        found: dict[tuple[bytes, int], Any] = {}
        request = api.ask(calls[0].key.group_id, ((each.key.topic_id, each.data) for each in now.values()))
        leader_of = self._coordinator().leader_of
        try:
            answer = await self._peers.exchange(
                *(_PURPOSE, leader, request, api.versions),
                timeout_s=self._timeout_s,
                is_wanted=lambda: any(leader_of(coordinator_key(key)) == leader for key in now),
            )
            assert isinstance(answer, api.response), answer
            results: Any = answer
            found = {
                (topic.topic_id, each.partition): each
                for topic in results.results
                for each in topic.partitions
            }
        except (NoAnswerError, UnsupportedByPeerError):
            pass  # a change may have happened, and is repeated
        for key, call in now.items():
            if not call.answer.done():
                result = found.get((key.topic_id, key.partition))
                call.answer.set_result(result or _failed(api, key, Errors.NETWORK_EXCEPTION))

    async def stop(self) -> None:
        """Answers waiting requests with COORDINATOR_NOT_AVAILABLE."""
        self._stopped = True
        serving = list(self._serving.values())
        for task in serving:
            task.cancel()
        if serving:
            await asyncio.wait(serving)
        for queue in self._queues.values():
            for call in queue:
                if not call.answer.done():
                    call.answer.set_result(_failed(call.api, call.key, Errors.COORDINATOR_NOT_AVAILABLE))
        self._queues.clear()


def _give_up(calls: list[_Call]) -> None:
    """Ends calls that a bug has kept without an answer."""
    event_log.error("bug: the state of share groups was not exchanged; report the traceback", traceback=True)
    for each in calls:
        if not each.answer.done():
            each.answer.set_result(_failed(each.api, each.key, Errors.COORDINATOR_NOT_AVAILABLE))


def _failed(api: StateApi, key: SharePartitionKey, error: Error) -> Any:
    return api.result(partition=key.partition, error_code=error.code)
