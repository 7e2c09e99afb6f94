"""Kafka's control-plane messages and internal records, read and written by declared layouts.

Imported by: server.
May import: base.
"""
