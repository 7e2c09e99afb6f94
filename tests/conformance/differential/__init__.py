"""Runs the same conversations with Apache Kafka and with Bowstring, and compares every field of every answer."""
