"""The version of Bowstring: this is the only place that has it."""

__version__ = "0.2.0"
