"""Builds Fetch responses: a chain of chunks with headers in memory and records as ranges of segment files."""
from bowstring._native.server.types cimport FetchRequest, FetchSet, Reactor

cdef void fetch_answer(Reactor *r, FetchRequest *request, FetchSet *s) noexcept nogil
cdef void release_slices(FetchSet *s) noexcept nogil
