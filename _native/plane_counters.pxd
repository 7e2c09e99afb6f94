"""Totals of what the reactors count; see DataPlane.counters."""
from bowstring._native.plane cimport Plane

cdef dict counters_of(Plane *plane)

# What reactors have to say since the last call: (level, event, detail).
cdef list events_of(Plane *plane)
