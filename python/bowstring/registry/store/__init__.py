"""Keeps the registry's topic: one elected writer, and readers that follow it.

Imported by: registry, registry.program.
May import: _native.client, _native.record, clients, clients.admin, clients.config, clients.consumer,
clients.group, clients.net, clients.producer, protocol, version.
"""
