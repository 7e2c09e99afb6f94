"""Gives the reports of access control to Python."""
from bowstring._native.server.plane_types cimport Plane

# See DataPlane.take_access() and denied_access().
cdef tuple taken_access(Plane *plane)
cdef tuple denied_access(Plane *plane)
cdef void access_free(Plane *plane)
