"""Access control of the control plane."""

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.security.acl_types import CLUSTER_NAME, AclOperation, ResourceType
from bowstring.engine.security.authorizer import Authorizer


class Sender:
    def __init__(self, principal="User:ANONYMOUS", peer="127.0.0.1:1234"):
        self.principal = principal
        self.peer = peer


def test_without_an_authorizer_everything_is_allowed():
    authorizer = Authorizer(BrokerConfigs({}))
    sender = Sender()
    assert not authorizer.is_on
    assert authorizer.allows(sender, AclOperation.READ, ResourceType.TOPIC, "t")
    assert authorizer.allowed(sender, AclOperation.READ, ResourceType.TOPIC, ["a", "b"]) == {"a", "b"}
    assert authorizer.allows_some(sender, AclOperation.WRITE, ResourceType.TOPIC)
    assert authorizer.operations(sender, ResourceType.GROUP, "g") == 0b110101001000
    authorizer.require(sender, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
