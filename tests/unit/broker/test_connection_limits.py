"""Limits of a broker's connections come from configs and from quotas of addresses, and change with them."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.broker.broker import Broker
from bowstring.engine.broker.connection_limits import ConnectionLimits
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol import encode_request
from bowstring.protocol.messages import alter_client_quotas as acq
from bowstring.protocol.messages import incremental_alter_configs as iac
from bowstring.protocol.messages.metadata import MetadataRequest
from tests.support.waiting import wait_until
from tests.support.wire_client import WireClient

SET, DELETE = 0, 1
BROKER = 4


def is_let_in(served):
    client = WireClient(served.broker.port)
    try:
        return client.ask(MetadataRequest(topics=[])).error_code == 0
    except ConnectionError:
        return False
    finally:
        client.close()


def test_a_stop_ends_look_ups_of_names(monkeypatch):
    async def scenario():
        begun, ended = asyncio.Event(), asyncio.Event()

        async def never(*args, **more):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
        quorum = SimpleNamespace(on_applied=[], on_snapshot=[], image=ClusterImage())
        configs = BrokerConfigs({"max.connections.per.ip.overrides": "nowhere.example:1"})
        limits = ConnectionLimits(configs, quorum, None, [])
        limits.limits = SimpleNamespace(set=lambda **limits: None)
        limits.start()
        await begun.wait()
        limits.stop()
        await ended.wait()
        assert (quorum.on_applied, quorum.on_snapshot) == ([], [])

    asyncio.run(scenario())


def configure(served, name, value):
    change = iac.AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
    resource = iac.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[change])
    (answer,) = served.ask(iac.IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert answer.error_code == 0, answer.error_message


def set_rate(served, host, rate):
    entry = acq.AlterClientQuotasRequestEntryData(
        entity=[acq.EntityData(entity_type="ip", entity_name=host)],
        ops=[acq.OpData(key="connection_creation_rate", value=rate or 0.0, remove=rate is None)],
    )
    (answer,) = served.ask(acq.AlterClientQuotasRequest(entries=[entry])).entries
    assert answer.error_code == 0, answer.error_message


def counters(served):
    return served.engine.connection_limits.limits.counters()


def test_without_limits_there_is_nothing(served):
    assert served.engine.connection_limits.limits is None


def test_the_limit_of_hosts_changes_while_the_broker_runs(served):
    configure(served, "max.connections.per.ip", "1")
    assert not is_let_in(served)
    assert counters(served)["refused"] == 1
    configure(served, "max.connections.per.ip.overrides", "127.0.0.1:2,[::1]:7")
    assert is_let_in(served)
    configure(served, "max.connections.per.ip", None)
    configure(served, "max.connections.per.ip.overrides", "localhost:1")
    wait_until(lambda: not is_let_in(served), "the address of a name")
    configure(served, "max.connections.per.ip.overrides", None)
    assert is_let_in(served)


@pytest.mark.parametrize("name", ["max_connections", "listener_name_plaintext_max_connections"])
def test_a_broker_that_is_full_answers_later(serve, name):
    served = serve(**{name: "1"})
    waiting = served.connect()
    waiting.send(encode_request(MetadataRequest(topics=[]), 12, 1, "test"))
    wait_until(lambda: counters(served)["listeners"] == [1])
    served.client.close()
    assert waiting.receive()


def test_connections_of_an_address_may_come_at_a_rate(serve):
    served = serve(quota_window_num="2")
    set_rate(served, "127.0.0.1", 1.0)
    wait_until(lambda: not is_let_in(served), "a connection that comes too fast")
    assert counters(served)["refused_later"] >= 1
    set_rate(served, "127.0.0.1", None)
    set_rate(served, None, 1e9)
    assert is_let_in(served)
    assert is_let_in(served)


def test_all_connections_may_come_at_a_rate(serve):
    served = serve(quota_window_num="2", max_connection_creation_rate="1")
    wait_until(lambda: is_let_in(served) and counters(served)["delayed"] > 0)


def test_limits_that_let_nobody_in_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="lets nobody connect"):
        Broker({"log.dirs": str(tmp_path), "max.connections.per.ip": "0"}).open()
