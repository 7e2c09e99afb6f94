"""Reads the configs of a share group that the leader of a partition needs (KIP-932)."""

import re
from typing import Final, NamedTuple

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.configs.table_groups import GROUPS
from bowstring.engine.metadata.image import GROUP_RESOURCE, ClusterImage
from bowstring.protocol.features import SHARE_VERSION

DEAD_LETTERS_SINCE: Final = 2
"""Level of share.version that has dead-letter topics (KIP-1191)."""
_BY_DURATION: Final = "by_duration:"
_PARTS: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d*)?)S)?)?",
    re.IGNORECASE,
)
_TIMESTAMP_MIN: Final = -(1 << 63)
_AGO_MAX_MS: Final = 1 << 64
_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


class ShareSettings(NamedTuple):
    """A group's configs.

    Attributes:
        delivery_count: share.delivery.count.limit.
        record_locks: share.partition.max.record.locks.
        lock_ms: share.record.lock.duration.ms.
        renew: share.renew.acknowledge.enable.
        committed: share.isolation.level is read_committed.
        offset_reset: share.auto.offset.reset.
        dead_letters: errors.deadletterqueue.topic.name is set, and share.version allows it.
    """

    delivery_count: int
    record_locks: int
    lock_ms: int
    renew: bool
    committed: bool
    offset_reset: str
    dead_letters: bool = False


def share_settings(group_id: str, image: ClusterImage, configs: BrokerConfigs) -> ShareSettings:
    """Returns the configs of a group: its own within the broker's bounds, else the broker's."""
    own = image.resource_configs(GROUP_RESOURCE, group_id)

    def number(name: str) -> int:
        if f"share.{name}" not in own:
            return int(configs.value(f"group.share.{name}"))
        # the bounds may have changed since the group's value was set
        lowest, highest = (int(configs.value(f"group.share.{bound}.{name}")) for bound in ("min", "max"))
        return max(lowest, min(int(GROUPS[f"share.{name}"].parse(own[f"share.{name}"])), highest))

    def text(name: str) -> str:
        return own.get(name) or GROUPS[name].default or ""

    return ShareSettings(
        delivery_count=number("delivery.count.limit"),
        record_locks=number("partition.max.record.locks"),
        lock_ms=number("record.lock.duration.ms"),
        renew=text("share.renew.acknowledge.enable").lower() == "true",
        committed=text("share.isolation.level") == "read_committed",
        offset_reset=text("share.auto.offset.reset"),
        dead_letters=bool(text("errors.deadletterqueue.topic.name").strip())
        and image.features.get(SHARE_VERSION, 0) >= DEAD_LETTERS_SINCE,
    )


def reset_timestamp(offset_reset: str, now_ms: int) -> int:
    """Returns the timestamp of ``by_duration:PnDTnHnMn.nS``: so long before `now_ms`, in ms since 1970."""
    found = _PARTS.fullmatch(offset_reset.removeprefix(_BY_DURATION))
    assert found is not None, "the config was checked when it was set"
    ago_ms = sum(float(value) * _MS[unit] for unit, value in found.groupdict().items() if value)
    return max(now_ms - int(min(ago_ms, _AGO_MAX_MS)), _TIMESTAMP_MIN)
