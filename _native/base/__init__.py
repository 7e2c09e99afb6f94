"""What every native package stands on: bytes, clocks, atomics, checksums, threads.

Imported by: arrow, cleaner, client, disk, log, protocol, record, replica, rest, server, share, tls, values,
wal.
May import: none of them.
"""
