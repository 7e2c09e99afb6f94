"""The one thing the coordinator reads in consumers' metadata: which topics they subscribe to."""

from bowstring._native.codec import ProtocolError, decode_prefix
from bowstring.engine.protocol.records.consumer_protocol import ConsumerProtocolSubscription


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """Topics in a ConsumerProtocolSubscription of any version, or None when the bytes are none.

    Two bytes of version come first. Version 0 begins every later one, so it is what is read.
    """
    if len(metadata) < 2:
        return None
    try:
        subscription, _ = decode_prefix(ConsumerProtocolSubscription, 0, metadata, 2)
    except ProtocolError:
        return None
    return subscription.topics
