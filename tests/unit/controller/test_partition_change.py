"""Every rule of a partition's change: elections, leader epochs, eligible leaders, directories."""

from typing import Any

import pytest

from bowstring.engine.controller.leader_choice import Election
from bowstring.engine.controller.partition_change import RECOVERING, PartitionChange, Rules
from bowstring.engine.metadata.directory_ids import LOST, MIGRATING, UNASSIGNED
from bowstring.engine.metadata.image import BrokerImage, PartitionImage, changed_partition

DIRECTORIES = {broker: bytes([broker]) * 16 for broker in range(1, 7)}
BROKERS = {
    broker: BrokerImage(broker, 0, b"", (), None, False, (DIRECTORIES[broker],)) for broker in DIRECTORIES
}
KEY = (b"T" * 16, 0)


def partition(**fields) -> PartitionImage:
    facts: dict[str, Any] = {
        "replicas": (1, 2, 3),
        "in_sync": (1, 2, 3),
        "leader": 1,
        "leader_epoch": 5,
        "partition_epoch": 9,
    } | fields
    directories = tuple(DIRECTORIES[each] for each in facts["replicas"])
    return PartitionImage(**({"directories": directories} | facts))


def change(old: PartitionImage, *, dead=(), elr=False, level=33, min_in_sync=1, brokers=BROKERS, **wanted):
    rules = Rules(brokers, lambda broker: broker not in dead, level, elr)
    made = PartitionChange(KEY, old, rules, min_in_sync)
    for name, value in wanted.items():
        setattr(made, name, value)
    record = made.build()
    return None if record is None else (record, changed_partition(old, record))


def test_nothing_changes_without_a_reason():
    assert change(partition()) is None
    assert change(partition(), dead=[3]) is None
    assert change(partition(leader=2)) is None


@pytest.mark.parametrize("election, leader", [(Election.ONLINE, 2), (Election.PREFERRED, 1)])
def test_a_preferred_election_takes_the_first_replica(election, leader):
    found = change(partition(leader=2), election=election)
    assert (2 if found is None else found[1].leader) == leader


def test_a_preferred_leader_that_is_not_in_sync_is_not_elected():
    assert change(partition(leader=2, in_sync=(2, 3)), election=Election.PREFERRED) is None


def test_the_next_replica_in_sync_takes_over():
    record, new = change(partition(in_sync=(3, 1)), dead=[1], in_sync=(3,))
    assert (new.leader, new.in_sync, new.leader_epoch, new.partition_epoch) == (3, (3,), 6, 10)
    assert record.leader_recovery_state == -1


def test_the_last_replica_stays_in_sync_when_it_dies():
    _, new = change(partition(in_sync=(1,)), dead=[1], in_sync=())
    assert (new.leader, new.in_sync, new.leader_epoch) == (-1, (1,), 6)


def test_an_unclean_election_takes_any_replica_and_recovers():
    _, new = change(partition(in_sync=(1,)), dead=[1], in_sync=(), election=Election.UNCLEAN)
    assert (new.leader, new.in_sync, new.leader_recovery_state) == (2, (2,), RECOVERING)


def test_a_clean_leader_is_preferred_to_an_unclean_one():
    _, new = change(partition(in_sync=(1, 3)), dead=[1], in_sync=(3,), election=Election.UNCLEAN)
    assert (new.leader, new.leader_recovery_state) == (3, 0)


@pytest.mark.parametrize("lost, may_lead", [(LOST, False), (UNASSIGNED, True), (MIGRATING, True)])
def test_a_replica_in_a_lost_directory_does_not_lead(lost, may_lead):
    old = partition(directories=(DIRECTORIES[1], lost, DIRECTORIES[3]))
    _, new = change(old, dead=[1], in_sync=(2, 3))
    assert new.leader == (2 if may_lead else 3)


def test_a_replica_in_a_directory_that_is_offline_does_not_lead():
    brokers = BROKERS | {2: BROKERS[2]._replace(directories=(b"other" + bytes(11),))}
    _, new = change(partition(), dead=[1], in_sync=(2, 3), brokers=brokers)
    assert new.leader == 3


# ------------------------------------------------------------ leader epochs


@pytest.mark.parametrize("level, epoch", [(11, 6), (12, 5)])
def test_only_old_clusters_raise_the_leader_epoch_when_the_isr_shrinks(level, epoch):
    _, new = change(partition(), in_sync=(1, 2), level=level)
    assert (new.leader_epoch, new.partition_epoch, new.leader) == (epoch, 10, 1)


def test_an_isr_that_grows_does_not_raise_the_leader_epoch():
    _, new = change(partition(in_sync=(1, 2)), in_sync=(1, 2, 3), level=11)
    assert (new.leader_epoch, new.partition_epoch) == (5, 10)


def test_removed_replicas_raise_the_leader_epoch():
    _, new = change(partition(), replicas=(1, 2), in_sync=(1, 2))
    assert (new.leader_epoch, new.leader, new.directories) == (6, 1, (DIRECTORIES[1], DIRECTORIES[2]))


def test_added_replicas_do_not():
    _, new = change(partition(), replicas=(1, 2, 3, 4), adding=(4,))
    assert new.leader_epoch == 5
    assert new.directories[3] == DIRECTORIES[4]


# ------------------------------------------------------------ reassignments


def test_a_reassignment_ends_when_the_new_replicas_are_in_sync():
    old = partition(replicas=(4, 5, 1), in_sync=(1, 4), leader=1, adding=(4, 5), removing=(1,))
    _, waiting = change(old, in_sync=(1, 4), replicas=(4, 5, 1, 6))
    assert waiting.adding == (4, 5)
    _, done = change(old, in_sync=(1, 4, 5))
    assert (done.replicas, done.in_sync, done.leader) == ((4, 5), (4, 5), 4)
    assert (done.adding, done.removing, done.leader_epoch) == ((), (), 6)


# ------------------------------------------------------------ eligible leaders


def test_those_who_leave_an_isr_below_the_minimum_stay_eligible():
    _, new = change(partition(), elr=True, min_in_sync=2, in_sync=(1, 2))
    assert new.eligible_leaders == ()
    _, new = change(new, elr=True, min_in_sync=2, in_sync=(1,))
    assert (new.in_sync, new.eligible_leaders) == ((1,), (2,))
    _, new = change(new, elr=True, min_in_sync=2, in_sync=(1, 3))
    assert (new.in_sync, new.eligible_leaders) == ((1, 3), ())


def test_who_stopped_uncleanly_is_not_eligible():
    old = partition(in_sync=(1, 2))
    _, new = change(old, elr=True, min_in_sync=2, in_sync=(1,), unclean_shutdown=(2,))
    assert (new.in_sync, new.eligible_leaders) == ((1,), ())


def test_an_eligible_leader_takes_over_an_empty_isr():
    old = partition(in_sync=(1,), eligible_leaders=(3, 2))
    _, new = change(old, dead=[1], elr=True, min_in_sync=3, in_sync=())
    assert (new.leader, new.in_sync) == (2, (2,))
    assert set(new.eligible_leaders) == {1, 3}
    assert new.leader_recovery_state == 0


def test_without_a_leader_the_isr_is_empty_and_the_last_leader_known():
    _, new = change(partition(in_sync=(1,)), dead=[1, 2, 3], elr=True, min_in_sync=2, in_sync=())
    assert (new.leader, new.in_sync, new.eligible_leaders) == (-1, (), (1,))
    assert new.last_known_leaders == (1,)


def test_the_last_known_leader_comes_back_uncleanly_when_nobody_is_eligible():
    old = partition(leader=-1, in_sync=(), last_known_leaders=(2,))
    assert change(old, dead=[2], elr=True, min_in_sync=2) is None
    _, new = change(old, elr=True, min_in_sync=2)
    assert (new.leader, new.in_sync, new.leader_recovery_state) == (2, (2,), RECOVERING)
    assert new.last_known_leaders == ()


@pytest.mark.parametrize(
    "before, there, comes_back",
    [
        (DIRECTORIES[5], (DIRECTORIES[2],), False),
        (LOST, (DIRECTORIES[2],), True),
        (DIRECTORIES[5], (DIRECTORIES[2], DIRECTORIES[5]), True),
        (UNASSIGNED, (DIRECTORIES[2],), True),
    ],
    ids=["on another disk", "given up for a while", "moved", "assigned late"],
)
def test_a_last_known_leader_whose_disk_was_replaced_does_not_come_back(before, there, comes_back):
    """It has nothing, and others may have the records."""
    places = (DIRECTORIES[1], before, DIRECTORIES[3])
    old = partition(leader=-1, in_sync=(), last_known_leaders=(2,), directories=places)
    brokers = BROKERS | {2: BROKERS[2]._replace(directories=there)}
    _, new = change(
        old, elr=True, min_in_sync=2, brokers=brokers, directories={2: DIRECTORIES[2]}, dead=[1, 3]
    )
    assert (new.leader, new.directories[1]) == (2 if comes_back else -1, DIRECTORIES[2])
    assert new.last_known_leaders == ()
    assert change(new, elr=True, min_in_sync=2, brokers=brokers) is None, "not later, either"
    if not comes_back:
        _, forced = change(new, elr=True, min_in_sync=2, brokers=brokers, election=Election.UNCLEAN)
        assert forced.leader == 1


def test_a_last_known_leader_that_reports_its_log_as_gone_does_not_come_back():
    """It reports no passing trouble so."""
    old = partition(
        leader=-1, in_sync=(), last_known_leaders=(2,), directories=tuple(DIRECTORIES.values())[:3]
    )
    _, new = change(old, elr=True, min_in_sync=2, directories={2: LOST})
    assert (new.leader, new.last_known_leaders) == (-1, ())
    again = change(new, elr=True, min_in_sync=2, directories={2: DIRECTORIES[2]})
    assert again is not None and again[1].leader == -1


def test_an_unclean_election_forgets_the_eligible_leaders():
    old = partition(leader=-1, in_sync=(), eligible_leaders=(3,), last_known_leaders=(3,))
    _, new = change(old, dead=[3], elr=True, min_in_sync=2, election=Election.UNCLEAN)
    assert (new.leader, new.in_sync, new.eligible_leaders) == (1, (1,), ())


def test_eligible_leaders_are_forgotten_when_the_feature_is_off():
    _, new = change(partition(in_sync=(1, 2), eligible_leaders=(3,)), min_in_sync=3, in_sync=(1,))
    assert new.eligible_leaders == ()


# ------------------------------------------------------------ directories


def test_a_replica_moves_to_another_directory():
    record, new = change(partition(), directories={2: DIRECTORIES[6]})
    assert new.directories == (DIRECTORIES[1], DIRECTORIES[6], DIRECTORIES[3])
    assert (record.leader, new.partition_epoch) == (-2, 10)
    assert change(partition(), directories={2: DIRECTORIES[2]}) is None


def test_directories_are_filled_in_once_the_cluster_has_them():
    old = partition(directories=())
    assert change(old, level=16) is None
    _, new = change(old, level=17)
    assert new.directories == (DIRECTORIES[1], DIRECTORIES[2], DIRECTORIES[3])
