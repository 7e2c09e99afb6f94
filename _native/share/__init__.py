"""Share partitions (KIP-932): which records of a partition a share group holds, and which are done. Pure.

Imported by: nobody but Python.
May import: base, record.
"""
