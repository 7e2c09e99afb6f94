"""Access control lists compiled for look-ups, pure.

Imported by: server.
May import: nothing.
"""
