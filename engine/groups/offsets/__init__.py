"""Committed offsets of all group types, outside and inside transactions."""
