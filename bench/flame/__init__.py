"""Draws flame graphs of broker and clients under load from Linux perf: `python -m bench.flame`."""
