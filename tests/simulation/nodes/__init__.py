"""Whole nodes, as they ship, on an event loop whose time, order and errors come from a seed."""
