"""Changes of keys that a listener could not use are refused, whichever operation makes them."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.api.key_changes import refused_keys
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.metadata.config_changes import APPEND, DELETE, SET, SUBTRACT
from bowstring.engine.metadata.image import BROKER_RESOURCE
from bowstring.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SUITES = "listener.name.secure.ssl.cipher.suites"
GOOD, OTHER = "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"


class Listeners:
    """TLS listeners that note what they would have."""

    def __init__(self):
        self.wanted = []

    def check_change(self, broker, default):
        self.wanted.append(broker.get(SUITES))
        if "RC4" in broker.get(SUITES, ""):
            raise ConfigError("RC4 is unknown, or too weak")


def changed(operation, value, *, name=SUITES, allowed=True):
    """Returns what the listeners would have, and the refusals."""
    tls = Listeners()
    image = SimpleNamespace(resource_configs=lambda kind, name: {SUITES: GOOD} if name else {})
    configs = [AlterableConfig(name=name, config_operation=operation, value=value)]
    resource = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configs=configs)
    request = SimpleNamespace(body=IncrementalAlterConfigsRequest(resources=[resource]))
    authorizer = SimpleNamespace(allows=lambda *_, counts: allowed)
    refused = asyncio.run(refused_keys(request, 1, image, tls, authorizer, configs=BrokerConfigs({})))
    return tls.wanted, {place: error.detail for place, error in refused.items()}


@pytest.mark.parametrize(
    ("operation", "value", "after"),
    [(SET, OTHER, OTHER), (DELETE, None, None), (APPEND, OTHER, f"{GOOD},{OTHER}"), (SUBTRACT, GOOD, "")],
)
def test_each_operation_is_checked(operation, value, after):
    assert changed(operation, value) == ([after], {})


@pytest.mark.parametrize("operation", [SET, APPEND])
def test_what_cannot_be_used_is_refused(operation):
    _, refused = changed(operation, "RC4")
    assert refused == {0: "RC4 is unknown, or too weak"}


def test_what_the_controller_refuses_is_left_to_it():
    assert changed(APPEND, "x", name="listener.name.secure.ssl.keystore.location") == ([], {})
    assert changed(9, "x") == ([], {})
    assert changed(SET, "RC4", allowed=False) == ([], {})
