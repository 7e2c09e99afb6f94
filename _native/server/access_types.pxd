"""Access control on the reactors: the rules, remembered decisions, and reports for the control thread."""
from libc.stdint cimport int32_t, int64_t, int8_t, uint32_t
from bowstring._native.access.acl_table cimport AclRules

cdef enum:
    DECISIONS = 2048                # of a reactor
    ACCESS_EVENTS_MAX = 4096        # that wait for the control thread
    CLUSTER_SERIAL = -1             # in place of a topic's

cdef enum AccessKind:
    # What reactors decide about, an index of Reactor.denied.
    ACCESS_WRITE
    ACCESS_READ
    ACCESS_TRANSACTION
    ACCESS_FOLLOW
    ACCESS_KINDS

cdef struct AccessDecision:
    # Valid for one generation of the rules, and of the subject's entry.
    int64_t serial                  # of the topic
    int32_t subject
    uint32_t subject_generation
    uint32_t generation
    int32_t minute                  # in which it was last reported
    int8_t kind
    int8_t allowed

cdef struct AccessEvent:
    AccessEvent *next
    int32_t subject                 # held
    int8_t kind                     # an AccessKind
    int8_t allowed
    int32_t name_length
    char *name                      # after the struct

cdef struct PlaneAccess:
    AclRules *rules                 # NULL: everything is allowed; guarded by Plane.table_lock
    uint32_t generation             # goes up with each change of the rules
    int8_t reports_allowed          # what is allowed is reported as well
    # guarded by Plane.control_lock
    AccessEvent *events             # the oldest first
    AccessEvent *events_tail
    int32_t event_count
    int64_t events_dropped
