"""Serves segment files to readers on the same machine over a Unix socket.

Imported by: api, broker.
May import: _native.log, _native.server, configs, engine, metadata, protocol, requests.
"""
