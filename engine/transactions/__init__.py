"""Coordinates transactions as a pure state machine: (state, event, now) to effects.

A `TransactionShard` coordinates one partition of ``__transaction_state``: the transactional ids that hash
to it. It does no I/O, reads no clock and allocates no producer ids. `service` carries out the effects that it
returns.

Pure files: `shard` is the interface; `transaction` is the state of one transactional id and its transitions;
`init`, `ending` and `partitions` handle requests of producers; `administration` serves admin clients;
`timeouts` aborts what is late and expires ids; `records` encodes the log. Behaviour follows Kafka 4.4's
transaction coordinator (KIP-98, KIP-360, KIP-890, KIP-1228).

Files that do I/O: `service` passes events to the shards; `marker_sender` sends the markers of ended
transactions to the leaders of their partitions; `marker_writer` writes markers that arrive; `verifier` checks
with the coordinator of a produced batch.

Imported by: api, broker.
May import: _native.log, _native.protocol, _native.record, _native.server, configs, coordinators, engine,
metadata, network, protocol, storage.
"""
