"""Totals of what the reactors count; see DataPlane.counters."""
from bowstring._native.plane cimport Plane

cdef dict counters_of(Plane *plane)
