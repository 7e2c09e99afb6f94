"""Administers a cluster.

Imported by: aio, cli, console, demo, operations, pipeline, pytest_plugin, registry.program, registry.store,
rest, rest.v2, rest.v3, web.
May import: clients, config, group, net, protocol.
"""
