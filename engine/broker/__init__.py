"""Runs the broker around its native data plane: start and stop, dispatch, housekeeping, metrics.

Imported by: broker, cli, cluster, migration, serve.
May import: _native.log, _native.protocol, _native.record, _native.server, api, configs, controller,
coordinators, engine, groups, local, metadata, metadata.store, network, protocol, quorum, raft,
replication, requests, security, share, share.coordinator, share.leader, share.persister, storage,
transactions, version.
"""
