"""Converts data directories between Apache Kafka and Bowstring.

Imported by: cli.
May import: broker, configs, metadata, metadata.store, protocol, quorum, requests, security, storage.
"""
