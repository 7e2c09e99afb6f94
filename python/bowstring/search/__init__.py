"""Finds records of a topic by text, key, header, place, time, and expressions over typed values.

Imported by: cli, console.
May import: clients, clients.consumer, clients.registry.
"""
