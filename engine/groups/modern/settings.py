"""Returns the settings of one group: its own config, within the broker's bounds, or the broker's config."""

from collections.abc import Iterable
from typing import Final

from bowstring.engine.groups.state import ShardState

LOWEST: Final = "min"
HIGHEST: Final = "max"


def setting(
    state: ShardState, group_id: str, kind: str, name: str, bounds: Iterable[str] = (LOWEST, HIGHEST)
) -> int:
    """Returns a setting that groups have themselves.

    Args:
        kind: "consumer", "share" or "streams".
        name: Without the kind: "session.timeout.ms".
        bounds: Which bounds the broker has for it. They may have changed since the group's value was set.
    """
    own = state.cluster.group_configs(group_id).get(f"{kind}.{name}")
    if own is None:
        return _of_broker(state, f"group.{kind}.{name}")
    value = int(own)
    for bound in bounds:
        limit = state.cluster.broker_config(f"group.{kind}.{bound}.{name.removeprefix('num.')}")
        if limit is not None:
            value = max(value, limit) if bound == LOWEST else min(value, limit)
    return value


def _of_broker(state: ShardState, name: str) -> int:
    """Returns the config in force now; what the shard was given if the view does not show configs."""
    value = state.cluster.broker_config(name)
    return int(getattr(state.config, name.replace(".", "_")) if value is None else value)
