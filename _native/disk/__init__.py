"""Files and the threads that wait for them: operations, storage threads, health of log directories.

Imported by: wal, log, cleaner, server.
May import: base.
"""
