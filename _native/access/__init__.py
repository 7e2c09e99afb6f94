"""Access control lists compiled for look-ups, pure.

Imported by: security.
May import: base.
"""
