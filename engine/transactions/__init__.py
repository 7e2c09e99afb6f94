"""Coordinates transactions as a pure state machine: (state, event, now) to effects.

A `TransactionShard` coordinates one partition of ``__transaction_state``: the transactional ids that hash
to it. It does no I/O, reads no clock and allocates no producer ids. engine/transactions/shell carries out
the effects that it returns.

Files: `shard` is the interface; `transaction` is the state of one transactional id and its transitions;
`init`, `ending` and `partitions` handle requests of producers; `administration` serves admin clients and
expires ids; `records` encodes the log. Behaviour follows Kafka 4.4's transaction coordinator (KIP-98,
KIP-360, KIP-890, KIP-1228).

Imported by: api, requests, transactions.shell.
May import: _native.protocol, coordinators, engine, protocol.
"""
