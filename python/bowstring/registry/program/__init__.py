"""Starts a registry from a command line: its node, its API and what operators see of it.

Imported by: cli, http_services.
May import: clients, clients.admin, registry, registry.api, registry.store, schemas, web.
"""
