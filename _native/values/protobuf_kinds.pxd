"""Kinds of Protobuf fields, with the numbers that values/protobuf_schema.py uses, and wire types."""

cdef enum Kind:
    P_VARINT = 0        # int32, int64, uint32, uint64
    P_ZIGZAG = 1        # sint32, sint64
    P_FIXED = 2         # fixed32, sfixed32, float, fixed64, sfixed64, double: as many bytes as the column has
    P_BOOLEAN = 3
    P_STRING = 4
    P_BYTES = 5
    P_ENUM = 6
    P_MESSAGE = 7
    P_WRAPPER = 8       # a message with one field, which is stored in the outer field's column
    P_TIMESTAMP = 9     # timestamps and durations: seconds and nanoseconds, stored as microseconds

cdef enum Wire:
    WIRE_VARINT = 0
    WIRE_FIXED64 = 1
    WIRE_BYTES = 2
    WIRE_GROUP = 3
    WIRE_GROUP_END = 4
    WIRE_FIXED32 = 5
