"""Returns the settings of one group: its own config, within the broker's bounds, or the broker's config."""

from bowstring.engine.groups.state import ShardState


def setting(state: ShardState, group_id: str, kind: str, name: str) -> int:
    """Returns a setting that groups have themselves.

    Args:
        kind: "consumer", "share" or "streams".
        name: Without the kind: "session.timeout.ms".
    """
    own = state.cluster.group_configs(group_id).get(f"{kind}.{name}")
    if own is None:
        return _of_broker(state, f"group.{kind}.{name}")
    value = int(own)
    lowest = state.cluster.broker_config(f"group.{kind}.min.{name}")
    highest = state.cluster.broker_config(f"group.{kind}.max.{name}")
    if lowest is not None and highest is not None:
        value = max(lowest, min(value, highest))
    return value


def _of_broker(state: ShardState, name: str) -> int:
    """Returns the config in force now; what the shard was given if the view does not show configs."""
    value = state.cluster.broker_config(name)
    return int(getattr(state.config, name.replace(".", "_")) if value is None else value)
