"""Administers a cluster.

Imported by: aio, cli, console, demo, operations, pipeline, pytest_plugin.
May import: clients, config, group, net, protocol.
"""
