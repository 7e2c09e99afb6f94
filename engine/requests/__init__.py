"""Defines a request, and binds its handler to the parts of the node that it uses.

Imported by: console_child, engine.*, serve.
May import: _native.log, _native.protocol, configs, metadata, protocol, storage.
"""
