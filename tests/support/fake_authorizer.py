"""An authorizer that denies what a test says, and notes what it is asked."""

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.security.authorizer import Authorizer
from bowstring.engine.security.principals import OWN_NODE
from bowstring.protocol.acls import AclOperation

ANY = None
ALLOWS_ALL = Authorizer(BrokerConfigs({}))
"""That of a node without an authorizer."""


class FakeAuthorizer(Authorizer):
    """Allows everything but `denied`.

    Attributes:
        denied: What is denied, as (operation, resource type, name), with None for any name.
        asked: All questions, as (principal, operation, resource type, name).
        counted: The denials that count, in the same form.
    """

    def __init__(self, *denied):
        super().__init__(BrokerConfigs({}))
        self.is_on = True
        self.denied = set(denied)
        self.asked = []
        self.counted = []

    def allows(self, request, operation, resource_type, name, *, counts=True):
        if request.principal is OWN_NODE:
            return True
        question = (request.principal, operation, resource_type, name)
        self.asked.append(question)
        denied = {(operation, resource_type, name), (operation, resource_type, ANY)} & self.denied
        if denied and counts:
            self.counted.append(question)
        return not denied

    def allowed(self, request, operation, resource_type, names, *, counts=True):
        asked = (request, operation, resource_type)
        return {name for name in set(names) if self.allows(*asked, name, counts=counts)}

    @property
    def may_repeat(self):
        return False  # what is denied changes without a version

    def permits(self, request, asked):
        return all(self.allows(request, *each, counts=False) for each in asked)

    def allows_some(self, request, operation, resource_type):
        return self.allows(request, operation, resource_type, ANY)

    def operations(self, request, resource_type, name):
        possible = ALLOWS_ALL.operations(request, resource_type, name)
        return sum(
            1 << operation
            for operation in AclOperation
            if possible & 1 << operation
            and self.allows(request, operation, resource_type, name, counts=False)
        )
