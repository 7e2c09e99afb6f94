"""Streams groups (KIP-1071): the coordinator has the topology, assigns tasks and moves them."""
