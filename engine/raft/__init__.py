"""Replicates the metadata log among its voters as a pure state machine: (state, event, now) to effects
(KRaft).

`RaftReplica` is one node's part in the quorum: elections with pre-vote (KIP-595, KIP-996), replication by
Fetch, snapshots (KIP-630), voters that are configured or in the log (KIP-853). It does no I/O, reads no clock
and draws randomness from a source that it is given. The shell passes it messages and fired timers and carries
out the effects that it returns. Behaviour follows Kafka 4.4's KafkaRaftClient.

Files: `replica` is the interface; `core` is what its parts share; `elections`, `fetching`,
`snapshot_fetching` and `voter_changes` handle the messages of their subject; `fetch_validation` compares
a follower's log with the leader's; `polling` acts on timers; `states`, `leader` and `quorum_state` are the
states of a replica; `control_state` follows the control records of the log; `wire` converts messages to
Kafka's.

Imported by: broker, quorum.
May import: _native.protocol, _native.record, protocol.
"""
