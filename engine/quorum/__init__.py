"""Runs a replica of the metadata quorum: disk, network and timers around the pure core of engine.raft.

Files: `service` carries out the core's effects; `log`, `synced_end` and `state_file` are the disk,
`connections` and `exchanges` send messages to other nodes; `leader_requests` sends a node's requests to the
leader, `forwards` has the turns of those of clients;
`applier` follows the committed records with the image of the cluster, and `own_snapshots` writes it down;
`settings` reads the configs; `formatting` prepares directories, also with `first_users`. `own_cluster` has
what differs for a node alone; `repair` and `offline_changes` change the log of a stopped node.

Imported by: api, broker, cli, cluster, migration, serve.
May import: _native.log, _native.record, configs, engine, metadata, metadata.store, network, protocol, raft,
security, storage.
"""
