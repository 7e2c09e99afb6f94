"""Strings of requests that are decoded without the schema-driven codec."""
from bowstring._native.base.wire cimport Reader

# Returns a string, or None if it is null; sets `bad` where it may not be null, or is not UTF-8.
cdef object text_of(Reader *r, bint compact, bint nullable)
