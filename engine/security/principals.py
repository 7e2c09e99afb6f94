"""Names the principals that no client presents: connections without authentication, and this node itself."""

from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of connections that do not authenticate."""

OWN_NODE: Final = "Node:within"
"""The principal of requests of this process to its own controller, which may do everything. Compare it by
identity: no text from outside is this object.
"""
