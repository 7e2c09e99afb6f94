"""Administers a cluster.

Imported by: aio, cli, console, demo, operations, pipeline, pytest_plugin, registry.store, web.
May import: clients, config, group, net, protocol.
"""
