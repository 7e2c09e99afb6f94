"""bowstring.broker_children: addresses of the HTTP services, and what is missing for them."""

import urllib.error
import urllib.request

import pytest

import bowstring
from bowstring import broker_children
from bowstring.broker_children import HttpPorts
from bowstring.clients.errors import ConfigError
from bowstring.engine.configs import ConfigError as EngineConfigError


def test_ports_are_bound_at_once():
    ports = HttpPorts(0, None)
    assert ports.rest_url is None
    port = int(ports.registry_url.rpartition(":")[2])
    with pytest.raises(EngineConfigError, match="choose another port"):
        HttpPorts(None, port)
    ports.close()
    HttpPorts(None, port).close()


def test_origins_are_checked_before_a_service_starts():
    with pytest.raises(EngineConfigError, match="write origins as"):
        HttpPorts(0, None, "app.example.org")
    HttpPorts(0, None, "https://app.example.org, http://localhost:3000").close()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(broker_children, "NEEDED", {"registry": ("no_such_package",), "rest": ()})
    with pytest.raises(EngineConfigError, match=r"no_such_package.*bowstring\[registry\]"):
        HttpPorts(0, 0)
    with pytest.raises(ConfigError, match="no_such_package"):
        bowstring.Broker(registry=True).start()


def test_a_client_that_is_early_waits():
    """The address is bound by the broker: the registry starts later, and answers then."""
    with bowstring.Broker(registry=True) as broker:
        with urllib.request.urlopen(f"{broker.registry_url}/subjects", timeout=60) as answer:
            assert answer.read() == b"[]"
        url = broker.registry_url
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=60)
