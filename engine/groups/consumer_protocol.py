"""Decodes the subscribed topics in consumers' metadata, the only part that the coordinator reads."""

from bowstring._native.protocol.message_codec import ProtocolError, decode_prefix
from bowstring.engine.protocol.records.consumer_protocol import ConsumerProtocolSubscription


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """Returns the topics in a ConsumerProtocolSubscription of any version, or None when the bytes are
    malformed.

    A two-byte version comes first. Every later version starts with the fields of version 0, so version 0
    is decoded.
    """
    if len(metadata) < 2:
        return None
    try:
        subscription, _ = decode_prefix(ConsumerProtocolSubscription, 0, metadata, 2)
    except ProtocolError:
        return None
    return subscription.topics
