"""Administers a cluster.

Imported by: aio, cli, console, demo, operations, pipeline, pytest_plugin, web.
May import: clients, config, group, net, protocol.
"""
