"""One partition's log: segments, indexes, producers, epochs, recovery, reading and appending.

Imported by: cleaner, server.
May import: base, disk, record, wal.
"""
