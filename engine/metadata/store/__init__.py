"""Keeps the metadata log on disk: writes and reads it, takes snapshots, carries changes out.

Imported by: broker, migration, quorum.
May import: _native.log, _native.record, configs, engine, metadata, protocol, storage.
"""
