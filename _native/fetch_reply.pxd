"""The reply to a Fetch, as a list of chunks: headers in memory, records as ranges of segment files."""
from bowstring._native.plane cimport FetchRequest, FetchSet, Reactor

cdef void fetch_answer(Reactor *r, FetchRequest *request, FetchSet *s) noexcept nogil
cdef void release_slices(FetchSet *s) noexcept nogil
