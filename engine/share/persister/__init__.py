"""Reads and writes the stored state of share partitions, wherever their share coordinator is (KIP-932).

Files: `interface` has the types and the interface, `network` implements it; `state_apis` lists the APIs of
share coordinators.

Imported by: engine.*.
May import: engine, network, protocol.
"""
