"""Implements the consumer and bounded reads: positions, fetching, consumer groups, local reads.

Imported by: aio, audit, cli, console, demo, exactly_once, registry.store, rest.records, rest.v2, search,
spark, tables.
May import: _native.arrow, _native.client, _native.record, arrow, clients, config, group, local, net,
producer, protocol.
"""
