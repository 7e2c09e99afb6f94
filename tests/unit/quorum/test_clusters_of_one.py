"""Which nodes are clusters of their own: by their settings, by formatting and by their log."""

import pytest

from bowstring.engine.broker.node import new_log_directories
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.quorum import QUORUM_STATE
from bowstring.engine.metadata.store.bootstrap import BOOTSTRAP_CHECKPOINT, bootstrap_snapshot
from bowstring.engine.quorum.own_cluster import is_own_cluster, needs_no_format, with_itself
from bowstring.engine.quorum.settings import quorum_settings
from bowstring.engine.raft.voters import Node
from bowstring.engine.storage.log_directory import METADATA_PARTITION_DIRECTORY
from tests.support.quorum_nodes import format_directory

OWN_VOTER = {"controller_quorum_voters": "1@localhost:9093"}
LISTENERS = "PLAINTEXT://:9092,CONTROLLER://:9093"
OWN_BOOTSTRAP = {"listeners": LISTENERS, "controller_quorum_bootstrap_servers": "localhost:9093"}


def arguments(node_id=1, **configs):
    """Settings, configs and id, as the functions take them."""
    made = BrokerConfigs({name.replace("_", "."): str(value) for name, value in configs.items()})
    return quorum_settings(made, node_id), made, node_id


@pytest.mark.parametrize(
    ("configs", "may"),
    [
        ({}, True),
        ({"listeners": LISTENERS}, True),
        ({"controller_quorum_voters": "1@localhost:9093"}, True),
        ({"controller_quorum_voters": "1@a:1,2@b:1"}, False),
        ({"controller_quorum_voters": "2@a:1", "process_roles": "broker"}, False),
        ({"controller_quorum_voters": "1@a:1", "process_roles": "controller"}, False),
        ({"controller_quorum_bootstrap_servers": "localhost:9093", "process_roles": "broker"}, False),
        ({"controller_quorum_bootstrap_servers": "localhost:9093", "process_roles": "controller"}, False),
        (OWN_BOOTSTRAP, True),
        ({**OWN_BOOTSTRAP, "controller_listener_names": "controller"}, True),
        ({**OWN_BOOTSTRAP, "controller_listener_names": "OTHER"}, False),
        ({**OWN_BOOTSTRAP, "controller_quorum_bootstrap_servers": "other:9094"}, False),
        ({**OWN_BOOTSTRAP, "controller_quorum_bootstrap_servers": "localhost:9092"}, False),
        ({**OWN_BOOTSTRAP, "controller_quorum_bootstrap_servers": "localhost:9093,other:9093"}, False),
        ({**OWN_BOOTSTRAP, "listeners": "PLAINTEXT://:9092,CONTROLLER://:0"}, True),
        (
            {
                "listeners": "PLAINTEXT://:9092,CONTROLLER://:19093",
                "advertised_listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093",
                "controller_quorum_bootstrap_servers": "a:9093",
            },
            True,
        ),
        ({"controller_quorum_bootstrap_servers": "localhost:9093"}, False),
    ],
)
def test_a_start_formats_only_nodes_that_cannot_belong_to_others(configs, may):
    assert needs_no_format(*arguments(**configs)) is may


def formatted(home):
    """By a start, as a node that belongs to no other."""
    format_directory(home, 1)


def formatted_for_a_cluster(home):
    format_directory(home, 1)
    (home / BOOTSTRAP_CHECKPOINT).write_bytes(b"")


def formatted_with_its_voters(home):
    format_directory(home, 1)
    bootstrap_snapshot(home).parent.mkdir()
    bootstrap_snapshot(home).write_bytes(b"")


def with_quorum_state(content):
    def write(home):
        format_directory(home, 1)
        (home / METADATA_PARTITION_DIRECTORY).mkdir()
        (home / METADATA_PARTITION_DIRECTORY / QUORUM_STATE).write_bytes(content)

    return write


VOTERS_IN_LOG = with_quorum_state(b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"data_version":1}')
VOTERS_IN_SETTINGS = with_quorum_state(b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"data_version":0}')
UNREADABLE = with_quorum_state(b"\xff")


@pytest.mark.parametrize(
    ("configs", "directory", "own"),
    [
        # No setting names a controller: whatever the directory has, only this node can be it.
        ({}, None, True),
        ({}, formatted, True),
        ({}, formatted_for_a_cluster, True),
        ({}, VOTERS_IN_LOG, True),
        # The settings name the node: formatting says whether that is for others, too.
        (OWN_VOTER, None, True),
        (OWN_VOTER, formatted, True),
        (OWN_VOTER, VOTERS_IN_SETTINGS, True),
        (OWN_VOTER, formatted_for_a_cluster, False),
        (OWN_VOTER, formatted_with_its_voters, False),
        (OWN_VOTER, VOTERS_IN_LOG, False),
        # Its own listener is where the quorum is found: formatting says whether that is all of it.
        (OWN_BOOTSTRAP, None, True),
        (OWN_BOOTSTRAP, formatted, True),
        (OWN_BOOTSTRAP, formatted_for_a_cluster, False),
        (OWN_BOOTSTRAP, formatted_with_its_voters, False),
        (OWN_BOOTSTRAP, VOTERS_IN_LOG, False),
        (OWN_BOOTSTRAP, VOTERS_IN_SETTINGS, True),
        (OWN_BOOTSTRAP, UNREADABLE, True),
        # Others are named, or a role is missing.
        ({**OWN_BOOTSTRAP, "controller_quorum_bootstrap_servers": "other:9094"}, None, False),
        ({**OWN_BOOTSTRAP, "process_roles": "broker"}, None, False),
        ({**OWN_BOOTSTRAP, "process_roles": "controller"}, None, False),
    ],
)
@pytest.mark.parametrize("setting", ["log_dir", "log_dirs", "metadata_log_dir"])
def test_a_node_is_its_own_cluster(tmp_path, configs, directory, own, setting):
    home = tmp_path / "home"
    if directory is not None:
        directory(home)
    directories = {"log_dirs": f"{tmp_path / 'first'},{tmp_path / 'second'}"} if "metadata" in setting else {}
    settings, made, node_id = arguments(**configs, **directories, **{setting: home})
    path = new_log_directories(made).metadata.path
    assert path == home
    assert is_own_cluster(settings, made, node_id, path) is own


def test_it_is_the_only_voter_at_its_first_address():
    settings, _, _ = arguments(**OWN_BOOTSTRAP)
    assert with_itself(settings, 1).voters == (Node(1, "localhost", 9093),)
    assert with_itself(settings, 1)._replace(voters=()) == settings


def test_a_configured_voter_keeps_its_address():
    settings, _, _ = arguments(**OWN_VOTER)
    assert with_itself(settings, 1) == settings
    assert settings.voters == (Node(1, "localhost", 9093),)


def test_without_a_listener_of_controllers_it_has_no_address():
    settings, _, _ = arguments()
    found = with_itself(settings, 1)
    assert found.voters == (Node(1, "", 0),)
    assert [(voter.key.id, voter.endpoints) for voter in found.voter_set] == [(1, ())]
    assert found.bootstrap == ()
