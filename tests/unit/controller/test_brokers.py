"""Registrations, heartbeats, controlled shutdown, sessions that end, and what they do to partitions."""

import pytest

from bowstring.engine.controller import brokers
from bowstring.engine.metadata.directory_ids import LOST
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from bowstring.protocol.messages.broker_registration import Feature
from bowstring.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.controller import ControllerCluster, directory, error_of, registration_request

METADATA = Feature(name="metadata.version", min_supported_version=7, max_supported_version=33)


# ------------------------------------------------------------ registration


def test_a_broker_is_fenced_until_it_has_caught_up():
    cluster = ControllerCluster()
    epoch = cluster.register(1)
    assert epoch == cluster.epoch(1) == 1
    assert cluster.state.image.brokers[1].fenced
    answer = cluster.heartbeat(1, offset=epoch - 1)
    assert (answer.is_caught_up, answer.is_fenced) == (False, True)
    answer = cluster.heartbeat(1, offset=epoch, want_fence=True)
    assert (answer.is_caught_up, answer.is_fenced) == (True, True)
    answer = cluster.heartbeat(1, offset=epoch)
    assert (answer.is_caught_up, answer.is_fenced, answer.should_shut_down) == (True, False, False)
    assert not cluster.state.image.brokers[1].fenced


def test_the_same_incarnation_keeps_its_epoch_and_state():
    cluster = ControllerCluster()
    epoch = cluster.register(1)
    cluster.heartbeat(1)
    assert cluster.register(1, rack="r") == epoch
    assert (cluster.state.image.brokers[1].fenced, cluster.state.image.brokers[1].rack) == (False, "r")


def test_another_incarnation_waits_for_the_end_of_the_session():
    cluster = ControllerCluster()
    cluster.register(1)
    cluster.heartbeat(1)
    assert error_of(lambda: cluster.register(1, incarnation=2)) is Errors.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += 9001
    assert cluster.register(1, incarnation=2) == len(cluster.log) - 1
    assert cluster.state.image.brokers[1].fenced


def test_a_broker_in_the_process_of_the_controller_does_not_wait_for_its_former_session():
    cluster = ControllerCluster()
    cluster.register(1)
    cluster.heartbeat(1)
    epoch = cluster.register(1, incarnation=2, is_own=True)
    assert epoch == len(cluster.log) - 1
    assert cluster.state.image.brokers[1].fenced
    cluster.heartbeat(1)
    cluster.now_ms += 9001
    cluster.heartbeat(1)
    assert brokers.fence_stale(cluster.state, cluster.now_ms) is None
    assert not cluster.state.image.brokers[1].fenced


def test_the_successor_of_a_broker_that_stopped_need_not_wait():
    cluster = ControllerCluster(2)
    cluster.add_topic([1, 2])
    assert cluster.heartbeat(2, want_shut_down=True).should_shut_down
    assert cluster.register(2, incarnation=2) == len(cluster.log) - 1


def test_the_epochs_of_a_broker_grow():
    cluster = ControllerCluster()
    epochs = [cluster.register(1, incarnation=each) for each in (1, 2, 3)]
    assert epochs == sorted(set(epochs))


@pytest.mark.parametrize(
    "fields, error",
    [
        ({"cluster_id": "another"}, Errors.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, Errors.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, Errors.INVALID_REGISTRATION),
        ({"log_dirs": [LOST]}, Errors.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1), directory(1)]}, Errors.INVALID_REGISTRATION),
        ({"log_dirs": [directory(2)]}, Errors.INVALID_REGISTRATION),
        ({"features": []}, Errors.INVALID_REGISTRATION),
        (
            {
                "features": [
                    Feature(name="metadata.version", min_supported_version=1, max_supported_version=32)
                ]
            },
            Errors.UNSUPPORTED_VERSION,
        ),
        (
            {"features": [METADATA, Feature(name="x", min_supported_version=1, max_supported_version=2)]},
            Errors.UNSUPPORTED_VERSION,
        ),
    ],
)
def test_registrations_that_are_refused(fields, error):
    cluster = ControllerCluster(2)
    cluster.decide(brokers.unregister(cluster.state, UnregisterBrokerRequest(broker_id=1)))
    before = len(cluster.log)
    assert error_of(lambda: cluster.register(1, **fields)) is error
    assert len(cluster.log) == before


def test_a_broker_without_a_finalized_feature_is_refused():
    cluster = ControllerCluster(eligible_leaders=True)
    assert error_of(lambda: cluster.register(1, features=[METADATA])) is Errors.UNSUPPORTED_VERSION


def test_old_clusters_know_no_directories():
    cluster = ControllerCluster(level=16)
    cluster.register(1, log_dirs=[])
    assert cluster.state.image.brokers[1].directories == ()


@pytest.mark.parametrize("is_clean", [True, False])
def test_who_stopped_uncleanly_is_no_eligible_leader(is_clean):
    cluster = ControllerCluster(2, eligible_leaders=True, min_insync_replicas="2")
    cluster.add_topic([1, 2])
    cluster.fence(2)
    cluster.fence(1)
    assert (cluster.partition().leader, cluster.partition().in_sync) == (-1, ())
    assert set(cluster.partition().eligible_leaders) == {1, 2}
    previous = cluster.epoch(1)
    cluster.now_ms += 9001
    cluster.register(1, incarnation=2, previous_broker_epoch=previous if is_clean else 0)
    assert set(cluster.partition().eligible_leaders) == ({1, 2} if is_clean else {2})
    cluster.heartbeat(1)
    assert cluster.partition().leader == (1 if is_clean else -1)


def test_requests_before_version_3_do_not_tell_how_a_broker_stopped():
    cluster = ControllerCluster(2, eligible_leaders=True, min_insync_replicas="2")
    cluster.add_topic([1, 2])
    cluster.fence(1)
    cluster.now_ms += 9001
    cluster.register(1, incarnation=2, version=2, previous_broker_epoch=cluster.epoch(1))
    assert cluster.partition().eligible_leaders == ()


# ------------------------------------------------------------ heartbeats


def test_heartbeats_of_another_epoch_are_stale():
    cluster = ControllerCluster(1)
    assert error_of(lambda: cluster.heartbeat(1, broker_epoch=77)) is Errors.STALE_BROKER_EPOCH
    assert error_of(lambda: cluster.heartbeat(9, broker_epoch=1)) is Errors.STALE_BROKER_EPOCH


def test_a_fenced_broker_leads_nothing_and_is_in_no_isr():
    cluster = ControllerCluster(3)
    cluster.add_topic([1, 2, 3], [2, 1, 3], [1])
    cluster.fence(1)
    assert [cluster.partition(each).leader for each in range(3)] == [2, 2, -1]
    assert [cluster.partition(each).in_sync for each in range(3)] == [(2, 3), (2, 3), (1,)]
    assert [cluster.partition(each).leader_epoch for each in range(3)] == [1, 0, 1]


def test_an_unfenced_broker_leads_partitions_without_a_leader():
    cluster = ControllerCluster(2)
    cluster.add_topic([1], [2, 1])
    cluster.fence(1)
    cluster.heartbeat(1)
    assert (cluster.partition(0).leader, cluster.partition(0).leader_epoch) == (1, 2)
    assert (cluster.partition(1).leader, cluster.partition(1).in_sync) == (2, (2,))


def test_unclean_elections_where_the_topic_allows_them():
    cluster = ControllerCluster(2)
    cluster.add_topic([1, 2], isr=[1])
    cluster.set_config("unclean.leader.election.enable", "true")
    cluster.fence(1)
    assert (cluster.partition().leader, cluster.partition().leader_recovery_state) == (2, 1)


def test_a_silent_broker_is_fenced():
    cluster = ControllerCluster(3)
    cluster.add_topic([1, 2])
    cluster.now_ms += 9000
    assert brokers.fence_stale(cluster.state, cluster.now_ms) is None
    cluster.heartbeat(2)
    cluster.now_ms += 1
    for fenced in (1, 3):
        cluster.decide(brokers.fence_stale(cluster.state, cluster.now_ms))
        assert cluster.state.image.brokers[fenced].fenced
    assert brokers.fence_stale(cluster.state, cluster.now_ms) is None
    assert (cluster.partition().leader, cluster.partition().in_sync) == (2, (2,))
    assert not cluster.heartbeat(1).is_fenced


# ------------------------------------------------------------ controlled shutdown


def test_a_controlled_shutdown_moves_leaders_and_waits_for_the_others():
    cluster = ControllerCluster(3)
    cluster.add_topic([1, 2, 3])
    for each in (2, 3):
        cluster.heartbeat(each, offset=len(cluster.log))
    answer = cluster.heartbeat(1, want_shut_down=True)
    assert (answer.should_shut_down, answer.is_fenced) == (False, False)
    assert (cluster.partition().leader, cluster.partition().in_sync) == (2, (2, 3))
    assert cluster.state.image.brokers[1].in_controlled_shutdown
    end = len(cluster.log) - 1
    cluster.heartbeat(2, offset=end)
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    cluster.heartbeat(3, offset=end)
    answer = cluster.heartbeat(1, want_shut_down=True)
    assert (answer.should_shut_down, answer.is_fenced) == (True, True)
    assert cluster.state.image.brokers[1].fenced


def test_a_broker_that_leads_what_nobody_else_can_lead_does_not_stop_at_once():
    cluster = ControllerCluster(2)
    cluster.add_topic([1])
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    assert cluster.partition().leader == -1
    cluster.heartbeat(2, offset=len(cluster.log))
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_without_leaderships_stops_at_once():
    cluster = ControllerCluster(2)
    cluster.add_topic([1, 2])
    assert cluster.heartbeat(2, want_shut_down=True).should_shut_down
    assert (cluster.partition().in_sync, cluster.state.image.brokers[2].fenced) == ((1,), True)


def test_a_fenced_broker_stops_at_once():
    cluster = ControllerCluster()
    cluster.register(1)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down
    cluster.heartbeat(1)
    assert cluster.heartbeat(1, want_fence=True, want_shut_down=True).should_shut_down


# ------------------------------------------------------------ directories


def test_replicas_in_directories_that_fail_leave_the_isr():
    cluster = ControllerCluster()
    both = [directory(1), directory(1, 1)]
    cluster.register(1, log_dirs=both)
    cluster.register(2)
    for each in (1, 2):
        cluster.heartbeat(each)
    cluster.add_topic([1, 2], [1, 2], directories=[both[0], directory(2)])
    cluster.add_topic([1, 2], name="u", topic_id=b"U" * 16, directories=[both[1], directory(2)])
    before = len(cluster.log)
    cluster.heartbeat(1, offline_log_dirs=[both[0]])
    assert len(cluster.log) == before + 3
    assert [cluster.partition(each).leader for each in range(2)] == [2, 2]
    assert cluster.partition(0, "u").leader == 1
    assert cluster.state.image.brokers[1].directories == (both[1],)
    cluster.heartbeat(1, offline_log_dirs=[both[0]])
    assert len(cluster.log) == before + 3


def test_cordoned_directories_are_noted():
    cluster = ControllerCluster(1)
    cluster.heartbeat(1, cordoned_log_dirs=[directory(1)])
    assert cluster.state.image.brokers[1].cordoned == (directory(1),)
    before = len(cluster.log)
    cluster.heartbeat(1, cordoned_log_dirs=[directory(1)])
    cluster.heartbeat(1, cordoned_log_dirs=None)
    assert len(cluster.log) == before
    cluster.heartbeat(1, cordoned_log_dirs=[])
    assert cluster.state.image.brokers[1].cordoned == ()


# ------------------------------------------------------------ unregistration


def test_an_unregistered_broker_is_gone_from_isrs_and_eligible_leaders():
    cluster = ControllerCluster(3, eligible_leaders=True, min_insync_replicas="3")
    cluster.add_topic([1, 2, 3], [2, 1, 3])
    cluster.fence(3)
    assert cluster.partition(0).eligible_leaders == (3,)
    cluster.decide(brokers.unregister(cluster.state, UnregisterBrokerRequest(broker_id=1)))
    assert 1 not in cluster.state.image.brokers
    assert [cluster.partition(each).leader for each in range(2)] == [2, 2]
    assert [cluster.partition(each).in_sync for each in range(2)] == [(2,), (2,)]
    request = UnregisterBrokerRequest(broker_id=1)
    assert error_of(lambda: brokers.unregister(cluster.state, request)) is Errors.BROKER_ID_NOT_REGISTERED


def test_a_new_controller_takes_all_brokers_as_just_heard():
    cluster = ControllerCluster(1)
    cluster.register(2)
    state = cluster.state
    again = type(state)(
        state.image,
        node_id=101,
        cluster_id=state.cluster_id,
        configs=state.configs,
        random=state.random,
        new_uuid=state.new_uuid,
        end_offset=50,
        now_ms=70_000,
    )
    assert brokers.fence_stale(again, 79_000) is None
    assert brokers.fence_stale(again, 79_001) is not None
    assert brokers.fence_stale(again, 79_001) is None
    request = BrokerHeartbeatRequest(broker_id=2, broker_epoch=cluster.epoch(2), current_metadata_offset=48)
    assert brokers.heartbeat(again, request, 70_000).answer.is_fenced
    request.current_metadata_offset = 49
    assert not brokers.heartbeat(again, request, 70_000).answer.is_fenced


def test_a_registration_says_all_of_the_request():
    cluster = ControllerCluster()
    cluster.decide(brokers.register(cluster.state, registration_request(1, rack="r"), 4, len(cluster.log), 0))
    broker = cluster.state.image.brokers[1]
    assert (broker.rack, broker.directories) == ("r", (directory(1),))
    assert broker.endpoints[0].port == 9092
    assert ("metadata.version", 7, 33) in broker.features
