"""Bowstring: an event-streaming broker that speaks Kafka's protocol."""

__version__ = "0.1.0"
