"""Access control lists compiled for look-ups, pure.

Imported by: nobody.
May import: nothing.
"""
