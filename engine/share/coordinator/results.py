"""Turns outcomes into the partitions of responses."""

from collections.abc import Callable
from typing import Any, Final

from bowstring.engine.share.coordinator.partition import PartitionState
from bowstring.engine.share.coordinator.shard import Outcome
from bowstring.engine.share.persister.state_apis import READ, STATE_APIS, SUMMARY
from bowstring.protocol.messages import read_share_group_state


def _read(state: PartitionState) -> dict[str, Any]:
    return {
        "state_epoch": state.state_epoch,
        "start_offset": state.start_offset,
        "state_batches": [read_share_group_state.StateBatch(**each._asdict()) for each in state.batches],
    }


def _summary(state: PartitionState) -> dict[str, Any]:
    return {
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
        "delivery_complete_count": state.delivery_complete_count,
    }


_FIELDS: Final[dict[int, Callable[[PartitionState], dict[str, Any]]]] = {
    READ.key: _read,
    SUMMARY.key: _summary,
}


def partition_result(api_key: int, partition: int, outcome: Outcome) -> Any:
    """Returns the result of a partition in the response of an API."""
    result = STATE_APIS[api_key].result
    if outcome.error:
        message = outcome.message or outcome.error.message
        return result(partition=partition, error_code=outcome.error.code, error_message=message)
    fields = _FIELDS[api_key](outcome.state) if outcome.state is not None else {}
    return result(partition=partition, **fields)
