"""Makes instances of a class out of the objects that another decoder makes."""
from libc.stdint cimport int64_t, uint8_t
from bowstring._native.base.object_decoder cimport ObjectDecoder

from bowstring._native.base.object_decoder import Undecodable


cdef class InstanceObjects(ObjectDecoder):
    """Decodes dicts and makes instances of them. Used by one thread at a time.

    Args:
        decoder: makes the dicts.
        make: makes an instance of one; its ValueErrors and TypeErrors make the value undecodable.
        explain: makes the reason of such an error.
    """
    cdef ObjectDecoder decoder
    cdef object make, explain

    def __cinit__(self, ObjectDecoder decoder not None, make not None, explain not None):
        self.decoder, self.make, self.explain = decoder, make, explain

    cdef object decode(self, const uint8_t *at, int64_t size):
        made = self.decoder.decode(at, size)
        if made is None or type(made) is Undecodable:
            return made
        try:
            return self.make(made)
        except (ValueError, TypeError) as error:
            return Undecodable(self.explain(error))
