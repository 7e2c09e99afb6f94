"""Changes leaders and ISRs of all partitions of a broker or a directory that appears or disappears."""

from collections.abc import Iterable
from typing import Final

from bowstring.engine.controller.partition_index import NO_LEADER, PartitionKey
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.image import BrokerImage
from bowstring.protocol.records.cluster_metadata.nodes import (
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
)
from bowstring.protocol.schema import MetadataRecord

_YES: Final = 1
_UNFENCED: Final = -1
_NOBODY: Final = -1


def update_leaders(
    state: ControllerState,
    keys: Iterable[PartitionKey],
    *,
    gone: int = _NOBODY,
    back: int = _NOBODY,
    unclean: int = _NOBODY,
) -> list[MetadataRecord]:
    """Returns the changes of partitions after a change of one broker.

    Args:
        keys: The partitions to look at.
        gone: A broker that leaves the ISR and leads no longer. Its registration may still say otherwise.
        back: A broker that may lead from now on.
        unclean: A broker that came back after it stopped uncleanly: besides, it is no eligible leader.
    """
    keys = list(keys)
    if not keys:
        return []
    # Not at start: a broker without partitions needs none of it.
    from bowstring.engine.controller.leader_choice import Election
    from bowstring.engine.controller.partition_change import PartitionChange, Rules

    may_lead = {each.id for each in state.image.brokers.values() if each.is_active}
    may_lead.add(back)
    may_lead -= {gone, unclean}
    rules = Rules.of(state, may_lead.__contains__)
    by_id = state.image.topics_by_id
    configs: dict[bytes, tuple[int, Election]] = {}
    records: list[MetadataRecord] = []
    for key in keys:
        topic = by_id[key[0]]
        partition = topic.partitions[key[1]]
        if key[0] not in configs:
            allowed = state.allows_unclean_election(topic.name)
            election = Election.UNCLEAN if allowed else Election.ONLINE
            configs[key[0]] = state.min_in_sync(topic.name), election
        min_in_sync, election = configs[key[0]]
        change = PartitionChange(key, partition, rules, min_in_sync)
        change.election = election
        if unclean != _NOBODY:
            change.unclean_shutdown = (unclean,)
        if gone in partition.in_sync or unclean in partition.in_sync:
            change.in_sync = tuple(each for each in partition.in_sync if each not in (gone, unclean))
        record = change.build()
        if record is not None:
            records.append(record)
    return records


def fence(state: ControllerState, broker: BrokerImage) -> list[MetadataRecord]:
    """Returns the records that fence a broker: its partitions change first, then its registration."""
    return [
        *update_leaders(state, state.index.in_sync(broker.id), gone=broker.id),
        BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=_YES),
    ]


def unfence(state: ControllerState, broker: BrokerImage) -> list[MetadataRecord]:
    """Returns the records that unfence a broker; it leads partitions without a leader where it may.

    One that was fenced during its controlled shutdown leads nothing before it registers again.
    """
    back = _NOBODY if broker.in_controlled_shutdown else broker.id
    return [
        BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=_UNFENCED),
        *update_leaders(state, state.index.led(NO_LEADER), back=back),
    ]


def begin_shutdown(state: ControllerState, broker: BrokerImage) -> list[MetadataRecord]:
    """Returns the records that move leadership away from a broker that wants to stop, and take it out of the
    ISRs.
    """
    records: list[MetadataRecord] = []
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=_YES
            )
        )
    return records + update_leaders(state, state.index.in_sync(broker.id), gone=broker.id)


def unregister(state: ControllerState, broker: BrokerImage) -> list[MetadataRecord]:
    """Returns the records that remove a broker's registration; no election waits for it."""
    return [
        *update_leaders(state, state.index.in_sync(broker.id), gone=broker.id),
        *update_leaders(state, state.index.eligible(broker.id), gone=broker.id),
        UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch),
    ]


def stopped(state: ControllerState, broker: int, *, is_clean: bool) -> list[MetadataRecord]:
    """Returns the changes before a new incarnation of a broker registers.

    Args:
        is_clean: Whether the broker stopped cleanly. Otherwise it may have lost records, and is no longer an
            eligible leader (KIP-966).
    """
    in_sync, eligible = state.index.in_sync(broker), state.index.eligible(broker)
    if state.has_eligible_leaders and not is_clean:
        return [
            *update_leaders(state, in_sync, unclean=broker),
            *update_leaders(state, eligible, unclean=broker),
        ]
    return update_leaders(state, in_sync, gone=broker)


def directories_failed(
    state: ControllerState, broker: BrokerImage, offline: Iterable[bytes]
) -> list[MetadataRecord]:
    """Returns the records for directories that a broker says are offline; none if that is known."""
    failed = [each for each in broker.directories if each in offline]
    if not failed:
        return []
    records: list[MetadataRecord] = []
    for directory in failed:
        records += update_leaders(state, state.index.in_directory(directory), gone=broker.id)
    records.append(
        BrokerRegistrationChangeRecord(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            log_dirs=[each for each in broker.directories if each not in failed],
        )
    )
    return records
