"""Simulates a quorum: real cores under one seed, over a bad network, bad disks and clocks that drift."""
