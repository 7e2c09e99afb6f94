"""Write-behind: what is appended goes to the disk early, and then leaves the page cache.

Hardly anybody reads a follower's log but at its end, and page cache is memory that the kernel must find, fill and reclaim
later. In steps of 8 MiB a thread of the log directory begins to write back what was appended, and gives up the pages of
earlier steps, which are on the disk by then. The same memory is used again, and the page cache of a log stays small
(docs/decisions/0030-followers-recycle-page-cache.md). bowstring.page.cache says for which logs. Nothing depends on it:
neither call waits for the disk, takes an error away from a sync, or drops a page that is not written.
"""
from libc.stdint cimport int64_t
from bowstring._native.log.types cimport Log, SegmentFile

# After an append to the active segment's file; `followed`: of a leader's batches. Call it under Log.lock; it never waits.
cdef void write_behind(Log *log, SegmentFile *file, int64_t end, bint followed) noexcept nogil
