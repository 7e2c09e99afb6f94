"""Implements membership of a consumer group, and its offsets.

Imported by: clients.*, registry.store, spark.
May import: _native.protocol, clients, net, protocol, security.
"""
