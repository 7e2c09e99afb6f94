"""Keys, trust and settings of TLS, see context.pyx."""
from bowstring._native.tls.stream_types cimport TlsPort


cdef class TlsContext:
    cdef TlsPort port
    cdef readonly tuple protocols
    cdef readonly str client_auth
    cdef readonly bytes certificate         # DER of its own, or None
