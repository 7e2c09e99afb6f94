"""Defines a request and the parts of the broker that its handler may use.

Imported by: engine.*, serve.
May import: _native.log, _native.protocol, _native.server, configs, controller, coordinators, groups,
metadata, metadata.store, network, protocol, quorum, share, share.coordinator, share.leader,
share.persister, storage, transactions.
"""
