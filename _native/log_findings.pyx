"""Findings, see log_findings.pxd."""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free


cdef LogFinding *finding_add(LogState *state, const char *what, int64_t base_offset, const char *suffix,
                             int64_t position, int64_t size_bytes, int64_t first_offset,
                             int64_t end_offset) noexcept nogil:
    cdef LogFinding *finding = <LogFinding *>calloc(1, sizeof(LogFinding))
    if finding == NULL:
        return NULL
    finding.what = what
    finding.suffix = suffix
    finding.base_offset = base_offset
    finding.position = position
    finding.size_bytes = size_bytes
    finding.first_offset = first_offset
    finding.end_offset = end_offset
    finding.next = state.findings
    state.findings = finding
    return finding


cdef void findings_free(LogState *state) noexcept nogil:
    cdef LogFinding *finding
    while state.findings != NULL:
        finding = state.findings
        state.findings = finding.next
        free(finding)
