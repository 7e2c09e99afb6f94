"""Kinds of JSON values, with the numbers that values/json_format.py uses."""

cdef enum Kind:
    J_BOOLEAN = 0
    J_INTEGER = 1
    J_FLOAT = 2
    J_DOUBLE = 3
    J_STRING = 4
    J_BINARY = 5
    J_DECIMAL = 6
    J_DATE = 7
    J_TIME = 8
    J_TIMESTAMP = 9
    J_LIST = 10
    J_MAP = 11
    J_STRUCT = 12
