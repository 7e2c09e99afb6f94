"""Handles the APIs that the control thread answers, one file for each API or group of related APIs.

`table.py` has a row for each API: which module answers it, how, and which permissions it needs.

Imported by: broker.
May import: _native.log, _native.protocol, _native.record, _native.share, configs, controller, coordinators,
engine, groups, local, metadata, protocol, quorum, requests, security, share, share.coordinator,
share.leader, share.persister, storage, transactions.
"""
