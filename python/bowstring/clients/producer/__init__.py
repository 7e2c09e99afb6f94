"""The producer: records into batches, batches to leaders, answers to futures.

Imported by: aio, cli, console, consumer, demo, exactly_once, registry.store, rest, rest.records, rest.v2,
spark, tables.
May import: _native.client, _native.record, clients, config, group, net, protocol, security.
"""
