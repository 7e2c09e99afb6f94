"""Defines a request, and binds its handler to the parts of the node that it uses.

Imported by: broker_children, engine.*, serve, supervised_child.
May import: _native.log, _native.protocol, configs, metadata, protocol, storage.
"""
