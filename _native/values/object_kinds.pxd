"""Kinds of Python objects that columns hold, with the numbers that values/object_plan.py uses."""

cdef enum Kind:
    O_NOTHING = 0
    O_BOOLEAN = 1
    O_SIGNED = 2
    O_UNSIGNED = 3
    O_REAL = 4
    O_TEXT = 5
    O_BYTES = 6
    O_DECIMAL = 7
    O_LIST = 8
    O_MAP = 9
    O_STRUCT = 10
