"""What a start warns of."""

import pytest

from bowstring.engine import event_log
from bowstring.engine.broker.start_warnings import warn_of_anonymous_nodes, warn_of_open_metrics
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.requests.listeners import Listener
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


@pytest.mark.parametrize(
    ("host", "protocol", "named"),
    [
        ("", "SASL_SSL", ["all interfaces"]),
        ("0.0.0.0", "SSL", ["0.0.0.0"]),
        ("127.0.0.1", "SASL_SSL", []),
        ("0.0.0.0", "PLAINTEXT", []),  # as everything else there
    ],
)
def test_metrics_beside_a_listener_that_protects(monkeypatch, host, protocol, named):
    warned = []
    monkeypatch.setattr(event_log, "warning", lambda message, **facts: warned.append(facts["host"]))
    warn_of_open_metrics(Listener("OUTER", host, 9092, protocol))
    assert warned == named
