"""What a start warns of."""

import pytest

from bowstring.engine import event_log
from bowstring.engine.broker.start_warnings import warn_of_anonymous_nodes
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.security.authorizer import Authorizer
from tests.support.access import STANDARD

CONTROLLERS = {
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "authorizer.class.name": STANDARD,
}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, ["PLAINTEXT", "CONTROLLER"]),
        ({"super.users": "User:ANONYMOUS"}, []),
        ({"authorizer.class.name": ""}, []),
        ({"listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT"}, ["CONTROLLER"]),
        ({"listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL"}, []),
    ],
)
def test_nodes_that_are_nobody_are_named(monkeypatch, settings, named):
    warned = []
    monkeypatch.setattr(event_log, "warning", lambda message, **facts: warned.append(facts["listener"]))
    configs = BrokerConfigs(CONTROLLERS | settings)
    warn_of_anonymous_nodes(configs, Authorizer(configs))
    assert warned == named
