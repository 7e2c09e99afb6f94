"""Starts a registry from a command line: its node, its API and what operators see of it.

Imported by: cli.
May import: clients, clients.admin, registry, registry.api, registry.store, schemas, web.
"""
