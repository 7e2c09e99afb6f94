"""Record batches (magic 2): checked, encoded, decoded, compressed.

Imported by: log, cleaner, server, share, arrow, client.
May import: base.
"""
