"""Log compaction: which records stay, the segments written, the swap.

Imported by: nobody but Python.
May import: base, disk, record, log.
"""
