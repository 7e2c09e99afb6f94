"""Kinds of Avro schemas, with the numbers that values/avro_plan.py uses."""

cdef enum Kind:
    A_NULL = 0
    A_BOOLEAN = 1
    A_INT = 2
    A_LONG = 3
    A_FLOAT = 4
    A_DOUBLE = 5
    A_BYTES = 6
    A_STRING = 7
    A_FIXED = 8
    A_ENUM = 9
    A_ARRAY = 10
    A_MAP = 11
    A_RECORD = 12
    A_UNION = 13
    A_DEFAULT = 14          # a field that only the reader has: `text` is the encoded default
    A_WRONG = 15            # the reader's schema has no type for it

cdef enum Target:
    TO_SAME = 0
    TO_CHOICE = 1           # of a union: a struct with a field for each type
    TO_FLOAT = 1            # of an int, a long or a float
    TO_DOUBLE = 2
    TO_DECIMAL = 3
