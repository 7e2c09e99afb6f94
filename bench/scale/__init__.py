"""Measures the cores of controller and brokers with more brokers and partitions than this machine could run.

Nothing is sent and nothing is stored: the decisions, the records as bytes, the images and the replicas' roles
are those of a real cluster. `python -m bench.scale` writes a report.
"""
