"""Typed values: JSON, Avro and Protobuf into Arrow columns and back.

Imported by: nobody but Python.
May import: base.
"""
