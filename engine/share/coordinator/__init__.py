"""Coordinates the state of share partitions as a pure state machine: (state, event, now) to effects.

A `ShareShard` has the share partitions of one partition of ``__share_group_state``: those whose keys,
"group:topic id:partition", hash to it. It does no I/O and reads no clock.

Files: `shard` is the interface; `batches` merges states of records; `partition` is the state of one share
partition; `records` encodes the log; `service` runs the shards. Behaviour follows Kafka 4.4's share
coordinator (KIP-932, KIP-1226).

Imported by: api, broker.
May import: _native.log, _native.protocol, _native.server, configs, coordinators, engine, groups, metadata,
protocol, share.persister, storage.
"""
