"""Decisions of replication, pure: high watermark, in-sync replicas, truncation.

Imported by: server.
May import: base.
"""
