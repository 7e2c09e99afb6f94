"""Limits of connections and their buffers."""

cdef enum:
    PEER_BYTES = 64                 # of a client's address as text
    RECEIVE_BUFFER_BYTES = 262144
    FLUSH_BYTES = 262144            # bytes to gather before a write: they are still in the L2 cache then
    SENDFILE_MIN_BYTES = 16384      # a smaller range is copied: cheaper than a second system call
    HELD_BYTES_MAX = 1048576        # a connection with more bytes of unanswered requests is not read from
    HELD_MIN_BYTES = 65536          # smaller parsed requests are not counted as held
