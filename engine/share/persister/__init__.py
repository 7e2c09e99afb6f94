"""Reads and writes the stored state of share partitions, wherever their share coordinator is (KIP-932).

Files: `interface` has the types and the interface.

Imported by: nobody.
May import: engine.
"""
