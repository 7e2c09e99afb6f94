"""Builds Fetch responses: a chain of chunks with headers in memory and records as ranges of segment files."""
from bowstring._native.server.fetch_types cimport FetchRequest, FetchSet
from bowstring._native.server.reactor_types cimport Reactor

cdef void fetch_answer(Reactor *r, FetchRequest *request, FetchSet *s) noexcept nogil
cdef void release_slices(FetchSet *s) noexcept nogil
