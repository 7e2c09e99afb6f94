"""Measures the console's pages beside a broker with many topics, partitions and groups."""
