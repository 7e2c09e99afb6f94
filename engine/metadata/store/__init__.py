"""Keeps the metadata log on disk: checks it before a start, reads it for tools, has the files of snapshots.

Imported by: broker, migration, quorum.
May import: _native.log, _native.record, configs, engine, metadata, protocol, storage.
"""
