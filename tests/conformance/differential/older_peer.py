"""What Kafka 4.4, the reference, has and the peer of the comparisons, Kafka 4.3, lacks.

The unit tests of these APIs and configs take their answers from Kafka 4.4's code. Empty this file when the peer is 4.4.
"""

from typing import Final

from bowstring.engine.protocol import API_VERSIONS

HIGHEST: Final = {18: 4, 28: 5, 42: 2, 88: 0, 89: 0}
"""The peer's newest version of an API, by its key."""
APIS: Final = frozenset({93})
"""APIs that the peer does not have."""
CONFIGS: Final = (
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.group.enable",
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.topic.name.prefix",
    "group.streams.assignors",
    "group.streams.rack.aware.assignment.tags",
    "group.streams.topology.description.plugin.class",
    "max.decompressed.message.bytes",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
    "log.remote.copy.lag.bytes",
    "log.remote.copy.lag.ms",
    "sasl.oauthbearer.allow.unverified.audience",
    "sasl.oauthbearer.allow.unverified.issuer",
    "streams.assignor.name",
    "streams.rack.aware.assignment.tags",
)
"""Configs that the peer does not have."""
FEATURES: Final = ("metadata.version", "share.version")
"""Features that the peer has at lower levels."""
LEVELS: Final = {
    "metadata.version": 30,
    "transaction.version": 2,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
}
"""The highest levels of a data directory or a cluster that the peer can use."""


def highest(key: int) -> int:
    """Returns the newest version of an API that both brokers have."""
    return HIGHEST.get(key, API_VERSIONS[key].highest)
