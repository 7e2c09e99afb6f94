"""Conformance: unmodified Kafka clients must see no difference between this broker and Kafka."""
