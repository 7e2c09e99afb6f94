"""Streams groups (KIP-1071): the coordinator knows the topology, assigns tasks and moves them."""
