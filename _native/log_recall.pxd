from libc.stdint cimport int64_t
from bowstring._native.log_types cimport Log

# What a snapshot does not tell of producers is read again from the end of the log: a producer may retry any of its
# last five batches, and a snapshot, as Kafka has it, knows one. 0 or a negated errno.
cdef int producers_recall(Log *log, int64_t now_ms) noexcept nogil
