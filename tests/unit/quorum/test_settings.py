"""What the configs of a quorum say, and which are refused."""

import pytest

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.quorum.settings import quorum_settings
from bowstring.engine.raft.voters import Node

SERVERS = "controller.quorum.bootstrap.servers"


def settings(node_id=1, **configs):
    given = {name.replace("_", "."): value for name, value in configs.items()}
    return quorum_settings(BrokerConfigs(given), node_id)


def test_configured_voters():
    found = settings(controller_quorum_voters="1@a:9093,2@[::1]:9094", process_roles="controller")
    assert found.voters == (Node(1, "a", 9093), Node(2, "::1", 9094))
    assert [voter.key.id for voter in found.voter_set] == [1, 2]
    assert [node[1:] for node in found.bootstrap] == [("a", 9093), ("::1", 9094)]


def test_bootstrap_servers_have_ids_that_no_node_has():
    found = settings(controller_quorum_bootstrap_servers="a:1,b:2", process_roles="broker")
    assert found.bootstrap == (Node(-2, "a", 1), Node(-3, "b", 2))


def test_the_timeouts_are_those_of_the_configs():
    config = settings(controller_quorum_fetch_timeout_ms="77", controller_quorum_append_linger_ms="3").config
    assert (config.fetch_timeout_ms, config.append_linger_ms) == (77, 3)


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({"controller_quorum_voters": "a:9093"}, "'a:9093' is not a voter; write id@host:port"),
        ({"controller_quorum_voters": "1@a"}, "'1@a' is not a voter"),
        ({"controller_quorum_voters": "1@a:0"}, "'1@a:0' is not a voter"),
        ({"controller_quorum_voters": "1@a:1,1@b:1"}, "names node 1 twice"),
        ({"controller_quorum_voters": "1@a:1,2@a:1"}, "two controllers at a:1"),
        ({"controller_quorum_voters": "2@a:1,3@b:1"}, r"node.id=1 is not in .* \(nodes 2, 3\)"),
        (
            {"controller_quorum_voters": "1@a:1", "process_roles": "broker"},
            "node.id=1 is in .* process.roles has no controller",
        ),
        ({"controller_quorum_bootstrap_servers": "a"}, "'a' is not an address"),
        ({"process_roles": "broker"}, "process.roles=broker needs a quorum: set " + SERVERS),
        ({"process_roles": "controller"}, "process.roles=controller needs a quorum"),
        ({"controller_listener_names": ""}, "controller.listener.names is empty"),
        ({"process_roles": ""}, "process.roles is empty"),
    ],
)
def test_what_cannot_work_is_refused(configs, words):
    with pytest.raises(ConfigError, match=words):
        settings(**configs)
