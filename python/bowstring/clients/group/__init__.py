"""Implements membership of a consumer group, and its offsets.

Imported by: admin, consumer, producer, share, spark.
May import: _native.protocol, clients, engine, engine.protocol, net.
"""
