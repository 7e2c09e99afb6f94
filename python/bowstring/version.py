"""The version of Bowstring: this is the only place that has it."""

__version__ = "0.3.0"
