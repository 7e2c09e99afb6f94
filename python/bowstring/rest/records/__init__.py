"""Moves records between HTTP bodies and the clients, in batches.

Imported by: rest.v3.
May import: clients, clients.consumer, clients.producer, protocol, rest, web, _native.rest.
"""
