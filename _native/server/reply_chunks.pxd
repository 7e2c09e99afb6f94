"""Pieces of replies of the control thread."""
from bowstring._native.server.connection_types cimport Chunk

# Returns the frame of a reply: `payload` behind its length. A large Encoding gives its memory away. NULL for None.
cdef Chunk *reply_chunk(payload) except? NULL
