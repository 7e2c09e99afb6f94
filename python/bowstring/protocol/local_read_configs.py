"""Names of what DescribeConfigs says of local reads. Apart from their frames, which a start does not need."""

from typing import Final

SOCKET_CONFIG: Final = "bowstring.local.socket"
INSTANCE_CONFIG: Final = "bowstring.local.instance"
TOKEN_CONFIG: Final = "bowstring.local.token"
"""No config: a broker with access control answers a new token, if DescribeConfigs names it."""
