"""Flame graphs of broker and clients under load, drawn from Linux perf: `python -m bench.flame`."""
