"""Keeps the partition logs of a broker: directories, checkpoints, commit mode, moves, compaction, scrubbing.

Imported by: broker, cli, engine.*, serve.
May import: _native.base, _native.cleaner, _native.disk, _native.log, _native.server, _native.wal, configs,
engine, metadata, protocol.
"""
