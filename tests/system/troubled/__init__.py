"""A random life of a cluster of processes under load: faults by a seed, and what must hold afterwards."""
