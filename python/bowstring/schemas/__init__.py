"""Parses, compares and formats schemas of records: Avro, JSON Schema and Protobuf, without I/O.

Imported by: clients.registry, registry, registry.operations, registry.program, rest.records.
May import: clients, distribution, protocol.
"""
