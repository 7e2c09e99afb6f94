"""Avro schemas (specification 1.12) as Apache Avro for Java 1.12 reads, writes and compares them."""

from bowstring.schemas.avro.avro_schema import parse

__all__ = ["parse"]
