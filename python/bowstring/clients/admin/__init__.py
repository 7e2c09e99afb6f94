"""Administers a cluster.

Imported by: aio, cli, console, demo, operations, pipeline, pytest_plugin, registry.program, registry.store,
rest, rest.v3, web.
May import: clients, config, group, net, protocol.
"""
