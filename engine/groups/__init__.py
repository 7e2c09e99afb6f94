"""Coordinates groups as a pure state machine: (state, event, now) to effects.

A `GroupShard` coordinates one partition of ``__consumer_offsets``: the groups whose ids hash to it and their
committed offsets. It does no I/O, reads no clock and draws no random numbers. `service` passes it
requests, fired timers and the results of its appends, and carries out the effects that it returns.

Files: `shard` is the interface; `state` holds a shard's state and collects its effects; `classic` has the
classic protocol; `offsets` handles committed offsets; `administration` serves admin clients; `records` and
`replay` handle the log. Behaviour follows Kafka 4.4's group coordinator.

Imported by: api, broker, share.coordinator.
May import: _native.log, _native.protocol, _native.record, _native.server, configs, coordinators, engine,
metadata, protocol, share.persister, storage.
"""
