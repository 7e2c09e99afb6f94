"""Typed values: JSON, Avro and Protobuf into Arrow columns and back.

Imported by: rest.
May import: base.
"""
