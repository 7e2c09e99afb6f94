"""Makes objects of values whose schema's key is at their start, or in a header of their record."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp
from bowstring._native.base.clock cimport monotonic_ns
from bowstring._native.base.object_decoder cimport ObjectDecoder
from bowstring._native.base.varint cimport get_varint
from bowstring._native.values.schema_keys cimport key_size

from bowstring._native.base.object_decoder import Undecodable

cdef enum:
    KNOWN_MAX = 10000           # keys whose decoders are kept


cdef class KeyedObjects(ObjectDecoder):
    """Decodes each value with the decoder of its schema. Used by one thread at a time.

    Args:
        find: called with a key that is not known; returns its decoder, the reason why there is none, or None if the key
            is longer, by the indexes of a message. What it raises goes to the caller of decode().
        header: name of the header that has the key; it counts before the value's start.
        lack: why a value without a key does not decode.
        renew: called every so often; whether decoders of known keys are no longer the right ones. None: they always are.
        every_s: how often, in seconds.
    """
    cdef object find, renew
    cdef int64_t due_ns, every_ns
    cdef bytes header
    cdef str lack
    cdef dict known
    cdef bytes last             # the key that was used last, with its decoder
    cdef ObjectDecoder decoder

    def __cinit__(self, find not None, bytes header not None, str lack not None, renew=None, double every_s=0.0):
        self.find, self.header, self.lack, self.known, self.last = find, header, lack, {}, b""
        self.renew, self.every_ns = renew, <int64_t>(every_s * 1e9)
        self.due_ns = monotonic_ns() + self.every_ns

    cdef object look_at_time(self):
        if monotonic_ns() >= self.due_ns:
            self.due_ns = monotonic_ns() + self.every_ns
            if self.renew():
                self.known.clear()
                self.last = b""

    cdef object decode(self, const uint8_t *at, int64_t size):
        if self.renew is not None:
            self.look_at_time()
        cdef int64_t length = PyBytes_GET_SIZE(self.last)
        if length == 0 or size < length or memcmp(at, PyBytes_AS_STRING(self.last), length) != 0:
            found = self.look(at, size)
            if type(found) is str:
                return Undecodable(found)
            length = PyBytes_GET_SIZE(self.last)
        return self.decoder.decode(at + length, size - length)

    cdef object decode_with_headers(self, const uint8_t *at, int64_t size, const uint8_t *headers,
                                    const uint8_t *end, int32_t count):
        cdef const uint8_t *key = NULL
        cdef int32_t length = header_value(headers, end, count, self.header, &key)
        if length < 0:
            return self.decode(at, size)
        if self.renew is not None:
            self.look_at_time()
        if length == 0 or length != PyBytes_GET_SIZE(self.last) or memcmp(key, PyBytes_AS_STRING(self.last), length) != 0:
            found = self.look(key, length)
            if type(found) is str:
                return Undecodable(found)
        return self.decoder.decode(at, size)

    cdef object look(self, const uint8_t *at, int64_t size):
        """Finds the decoder of the key at the start of some bytes, and keeps both; else returns the reason."""
        cdef bint indexed
        for indexed in (False, True):
            length = key_size(at, size, indexed)
            if length == 0:
                return self.lack
            key = PyBytes_FromStringAndSize(<const char *>at, length)
            found = self.known.get(key, self)
            if found is self:
                found = self.find(key)
                if type(found) is str:
                    return found
                if len(self.known) >= KNOWN_MAX:
                    self.known.clear()
                self.known[key] = found
            if found is not None:
                self.last, self.decoder = key, found
                return None
        return self.lack


cdef int32_t header_value(const uint8_t *at, const uint8_t *end, int32_t count, bytes name, const uint8_t **value) noexcept:
    """The last header of a name: its length, -1 if there is none or it is null. Lengths have been checked."""
    cdef int32_t i, size = 0, found = -1
    cdef bint same
    for i in range(count):
        get_varint(&at, end, False, &size)
        same = size == PyBytes_GET_SIZE(name) and memcmp(at, PyBytes_AS_STRING(name), size) == 0
        at += size
        get_varint(&at, end, False, &size)
        if same:
            value[0], found = at, size
        at += size if size > 0 else 0
    return found


cdef class CalledObjects(ObjectDecoder):
    """Makes objects by a function of the value's bytes. Used by one thread at a time.

    Args:
        make: returns the object. Its exceptions make the value undecodable.
        explain: makes the reason of such an error.
    """
    cdef object make, explain

    def __cinit__(self, make not None, explain not None):
        self.make, self.explain = make, explain

    cdef object decode(self, const uint8_t *at, int64_t size):
        try:
            return self.make(PyBytes_FromStringAndSize(<const char *>at, size))
        except Exception as error:
            return Undecodable(self.explain(error))
