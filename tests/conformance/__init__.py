"""Conformance: unmodified Kafka clients against a broker that they must not be able to tell from Kafka."""
