"""Builds the image of the cluster from its metadata records: pure state, no I/O.

Imported by: engine.*.
May import: _native.protocol, _native.record, configs, protocol.
"""
