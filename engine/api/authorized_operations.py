"""Returns the operations that a client may do on a resource, as the bit fields of answers (KIP-430)."""

from typing import TYPE_CHECKING, Final

from bowstring.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType

if TYPE_CHECKING:
    from bowstring.engine.security.authorizer import Authorizer, Sender

NOT_ASKED: Final = -2147483648
"""Value of the field when the client did not request it."""
_NONE: Final = 0


def cluster_operations(authorizer: "Authorizer", request: "Sender") -> int:
    """Returns the field for the cluster: none for a client that may not describe it."""
    if not authorizer.allows(request, AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME):
        return _NONE
    return authorizer.operations(request, AclResourceType.CLUSTER, CLUSTER_NAME)
