"""Builds the Arrow columns that readers return, with typed values.

Imported by: aio, consumer, share, tables.
May import: _native.arrow, _native.base, clients, values.
"""
