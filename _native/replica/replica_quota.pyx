"""A wrapper of ReplicaQuota for tests, see replica_quota.pxd."""
from libc.stdint cimport int64_t


cdef class Quota:
    """A quota.

    Args:
        rate: Bytes per second; 0 for none.
    """

    cdef ReplicaQuota quota

    def __cinit__(self, int64_t rate):
        quota_set(&self.quota, rate)

    def set_rate(self, int64_t rate):
        """Changes the rate; what was recorded before is forgotten then."""
        quota_set(&self.quota, rate)

    def wait_ms(self, int64_t now_ms):
        """Returns the milliseconds until the quota is no longer exceeded."""
        return quota_wait_ms(&self.quota, now_ms)

    def record(self, int64_t size_bytes, int64_t now_ms):
        """Notes that bytes were copied."""
        quota_record(&self.quota, size_bytes, now_ms)
