"""The settings of replication, from the control thread."""
from libc.stdint cimport int32_t, int64_t, int8_t
from bowstring._native.replica.replica_quota cimport ReplicaQuota

cdef struct ReplicationSettings:
    int32_t broker_id               # -1: no replication
    int64_t broker_epoch
    int32_t wait_max_ms             # replica.fetch.wait.max.ms
    int32_t min_bytes               # replica.fetch.min.bytes
    int32_t part_max_bytes          # replica.fetch.max.bytes
    int32_t response_max_bytes      # replica.fetch.response.max.bytes
    int64_t backoff_ms              # replica.fetch.backoff.ms
    int64_t socket_timeout_ms       # replica.socket.timeout.ms
    int64_t lag_max_ms              # replica.lag.time.max.ms
    int32_t fetchers                # num.replica.fetchers
    int8_t is_secured               # the control thread connects to leaders: their listeners have TLS or SASL
    int8_t rack_aware               # replica.selector.class: consumers read in their rack
    ReplicaQuota leader_quota       # leader.replication.throttled.rate
    ReplicaQuota follower_quota     # follower.replication.throttled.rate
