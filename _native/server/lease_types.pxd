"""Leases: answers that a reactor may repeat by itself."""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint32_t, uint8_t

cdef enum:
    # APIs that leases are given for.
    LEASED_HEARTBEAT
    LEASED_CONSUMER_GROUP_HEARTBEAT
    LEASED_APIS

cdef struct Lease:
    # Given to one connection for one request: until the lease is withdrawn, the reactor answers the same bytes with the
    # same bytes. The control thread and the connection have a reference each; the last one frees it.
    #
    # It also ends with the rules of access control that were in force when it was given, and when another principal
    # authenticates on the connection.
    #
    # The reactor stores `used_ms`, then a full fence, then loads `withdrawn`; the control thread does the reverse. So the
    # control thread sees the time of every request that the reactor has answered.
    int32_t refs
    int32_t withdrawn
    int64_t used_ms                 # CLOCK_MONOTONIC, of the last request that may have been answered
    int8_t counted_as               # one of the above
    int16_t api_key
    int16_t api_version
    int32_t client_id_length        # -1: null
    int32_t request_bytes           # of the body
    int32_t answer_bytes            # header and body, from the correlation id on
    int32_t throttle_at             # where the answer has the time that the client waits; -1: nowhere
    uint32_t access_generation      # of the rules, see PlaneAccess
    uint8_t data[1]                 # client id, request body, answer
