"""Records as Arrow columns and back, through the C data interface.

Imported by: client, rest.
May import: base, record.
"""
