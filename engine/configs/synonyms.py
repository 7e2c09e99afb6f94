"""Which broker configs a topic config, or a broker config's own older names, take their value from."""

from typing import Final

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000

# Topic config -> broker configs in order of precedence, each with the factor to the topic config's unit.
TOPIC_SYNONYMS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "bowstring.durability": (("bowstring.durability", 1),),
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", MINUTE_MS),
        ("log.retention.hours", HOUR_MS),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}

# Broker configs that are several names of one thing, in order of precedence.
_FAMILIES: Final = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)
# log.flush.scheduler.interval.ms is a config of its own that log.flush.interval.ms falls back to.
_FAMILY_OF: Final = {name: family for family in _FAMILIES for name in family} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The names that decide the value of broker config `name`, itself among them."""
    return _FAMILY_OF.get(name, (name,))
