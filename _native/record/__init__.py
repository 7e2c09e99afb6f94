"""Record batches (magic 2): checked, encoded, decoded, compressed.

Imported by: arrow, cleaner, client, log, rest, server, share.
May import: base.
"""
