"""Interns subjects, see subject_types.pxd. An index stays the same while a connection of the subject is open.

What is kept for an index outside the table (an ACL decision, a quota) is valid for one generation of its entry.
"""
from libc.stdint cimport int32_t
from bowstring._native.server.subject_types cimport SUBJECT_BLOCK, Subject, SubjectTable

cdef bint subjects_init(SubjectTable *table) noexcept nogil
cdef void subjects_free(SubjectTable *table) noexcept nogil

# Returns the index of (principal, host of peer) with a new reference; NO_SUBJECT when memory or the table is used up.
cdef int32_t subject_intern(SubjectTable *table, const char *principal, int32_t length, const char *peer) noexcept nogil

# The caller holds a reference already.
cdef void subject_retain(SubjectTable *table, int32_t index) noexcept nogil
cdef void subject_release(SubjectTable *table, int32_t index) noexcept nogil


cdef inline Subject *subject_at(const SubjectTable *table, int32_t index) noexcept nogil:
    """Returns an entry to which the caller, or its connection, has a reference."""
    return &table.blocks[index // SUBJECT_BLOCK][index % SUBJECT_BLOCK]
