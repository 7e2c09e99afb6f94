"""The group coordinator as a pure state machine: (state, event, now) to effects.

A `GroupShard` is the coordinator of one partition of ``__consumer_offsets``: the groups whose id hashes there
and the offsets they committed. It does no I/O, reads no clock and draws no random numbers; the broker's
shell feeds it requests, fired timers and the outcome of its appends, and carries out the effects it returns.

Files: `shard` is the face; `classic_group` what a classic group is; `join`, `rebalance`, `sync` and
`membership` the protocol's phases; `offset_store` and `offset_requests` the committed offsets;
`administration` what admin clients ask for; `records` and `replay` the log. Behaviour follows Kafka 4.3's
group coordinator.
"""
