"""Damage in a log's files, as Python sees it: what opening found, what the scrubber looks for.

On top of PartitionLog; the GIL is released around I/O.
"""
from libc.stdint cimport int64_t
from bowstring._native.log cimport PartitionLog
from bowstring._native.log_findings cimport findings_free
from bowstring._native.log_roll cimport state_of
from bowstring._native.log_types cimport LogFinding, LogState, pthread_mutex_t

cdef extern from "pthread.h" nogil:
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)

# ---------------------------------------------------------------- found when the log was opened


cdef dict finding_dict(const LogFinding *finding):
    return {
        "what": finding.what.decode(),
        "file": f"{finding.base_offset:020d}{finding.suffix.decode()}" if finding.suffix != NULL else None,
        "position": finding.position,
        "size_bytes": finding.size_bytes,
        "first_offset": finding.first_offset,
        "end_offset": finding.end_offset,
        "out_of_service": bool(finding.out_of_service),
    }


def take_findings(PartitionLog log not None):
    """What opening the log came upon, in that order, once: dicts as log_damage.pyi describes them."""
    cdef LogState holder
    cdef const LogFinding *finding
    cdef list found = []
    pthread_mutex_lock(&log.log.lock)
    holder.findings = state_of(log.log).findings
    state_of(log.log).findings = NULL
    pthread_mutex_unlock(&log.log.lock)
    try:
        finding = holder.findings
        while finding != NULL:
            found.append(finding_dict(finding))
            finding = finding.next
    finally:
        findings_free(&holder)
    found.reverse()
    return found
