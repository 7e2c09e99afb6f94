"""Moves records between HTTP bodies and the clients, in batches.

Imported by: rest.v2, rest.v3.
May import: clients, clients.consumer, clients.producer, clients.registry, protocol, rest, schemas, values,
web, _native.rest.
"""
