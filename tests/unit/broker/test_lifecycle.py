"""Registrations that the controller refuses."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.broker.lifecycle import BrokerLifecycle, RegistrationError
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.broker_registration import BrokerRegistrationResponse


class Refusing:
    """A quorum whose controller answers with these errors, the last of them again and again."""

    def __init__(self, *errors, **features):
        self.errors = list(errors)
        self.image = SimpleNamespace(
            features={name.replace("_", "."): level for name, level in features.items()}
        )

    async def ask_leader(self, request):
        error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        return BrokerRegistrationResponse(error_code=error.code)


def refusal(quorum, timeout_ms=250):
    configs = BrokerConfigs({"initial.broker.registration.timeout.ms": str(timeout_ms)})
    directories = SimpleNamespace(cluster_id="cluster", clean_epoch=-1, ids=list)
    lifecycle = BrokerLifecycle(quorum, configs, directories, node_id=1, listeners=list)
    with pytest.raises(RegistrationError) as caught:
        asyncio.run(lifecycle.register())
    return str(caught.value)


def test_a_level_that_this_version_lacks_is_named_once_and_tried_again(caplog):
    said = refusal(Refusing(Errors.UNSUPPORTED_VERSION, group_version=1, metadata_version=30))
    assert "group.version at level 1" in said
    assert "initial.broker.registration.timeout.ms" in said
    warnings = [line for line in caplog.messages if "does not register" in line]
    assert len(warnings) == 1


def test_other_refusals_say_why():
    assert "does not accept the features" in refusal(Refusing(Errors.UNSUPPORTED_VERSION))
    assert "another one" in refusal(Refusing(Errors.INCONSISTENT_CLUSTER_ID))
    assert "node.id=1 is registered" in refusal(Refusing(Errors.DUPLICATE_BROKER_REGISTRATION))
    assert "INVALID_REQUEST" in refusal(Refusing(Errors.UNSUPPORTED_VERSION, Errors.INVALID_REQUEST))
