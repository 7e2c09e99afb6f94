"""The write-ahead log of commit mode: frames, group commit, segment files of one log directory.

Imported by: log, server.
May import: base, disk.
"""
