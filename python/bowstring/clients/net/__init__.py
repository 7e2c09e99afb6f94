"""Connects to brokers: frames, requests in flight, cluster metadata.

Imported by: cli, clients.*, registry.store, spark.
May import: _native.arrow, _native.client, _native.protocol, _native.tls, clients, protocol, security,
version.
"""
