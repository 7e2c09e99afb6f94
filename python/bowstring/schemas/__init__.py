"""Parses, compares and formats schemas of records: Avro, JSON Schema and Protobuf, without I/O.

Imported by: nobody.
May import: nothing.
"""
