"""Filters of access control entries, as DescribeAcls and DeleteAcls have them (KIP-140, KIP-290). Pure."""

from typing import Final, NamedTuple

from bowstring.engine.metadata.acls_image import Acl

ANY: Final = 1
"""Kafka's number of ANY, of each field."""
MATCH: Final = 2
LITERAL: Final = 3
PREFIXED: Final = 4
WILDCARD: Final = "*"
RESOURCE_TYPES: Final = range(ANY, 8)
PATTERN_TYPES: Final = range(ANY, 5)
OPERATIONS: Final = range(ANY, 16)
PERMISSIONS: Final = range(ANY, 4)
"""Numbers of Kafka 4.4; others are UNKNOWN."""


class AclFilter(NamedTuple):
    """A filter. None stands for any text."""

    resource_type: int
    pattern_type: int
    resource_name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @property
    def unknown(self) -> str | None:
        """The part of the filter whose number Kafka does not have; None: there is none."""
        if self.resource_type not in RESOURCE_TYPES or self.pattern_type not in PATTERN_TYPES:
            return "patternFilter"
        if self.operation not in OPERATIONS or self.permission not in PERMISSIONS:
            return "entryFilter"
        return None

    def matches(self, acl: Acl) -> bool:
        """Returns whether a rule matches. MATCH finds all rules whose pattern fits the name."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._fits(acl)
        )

    def _fits(self, acl: Acl) -> bool:
        name = self.resource_name
        if self.pattern_type not in (ANY, MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        if self.pattern_type != MATCH:
            return name == acl.resource_name
        if acl.pattern_type == LITERAL:
            return acl.resource_name in (name, WILDCARD)
        return name.startswith(acl.resource_name)
