"""What reactors send to the control thread."""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint8_t

cdef enum:
    # Instead of an API key or version, for what is no request of a client:
    RAW_TOKEN_VERSION = -1          # of SaslAuthenticate: the body is a SASL token, and so is the answer
    CERTIFICATE_KEY = -2            # the body is the certificate (DER) of a TLS client; DataPlane.admit() answers it
    API_SASL_HANDSHAKE = 17
    LARGE_BODY_BYTES = 65536        # from this size on, requests for the control thread are counted over all connections

# Before the cimports: structs of these files point to each other.
cdef struct RequestHeader
cdef struct ControlMessage

from bowstring._native.server.connection_limits cimport PEER_BYTES
from bowstring._native.server.produce_types cimport ProducePart

cdef struct RequestHeader:
    int16_t api_key
    int16_t api_version
    int32_t correlation_id
    int32_t client_id_length        # -1: null
    const uint8_t *client_id

cdef struct ControlMessage:
    ControlMessage *next
    int64_t connection_id
    int64_t slot
    RequestHeader header
    int32_t listener
    int64_t received_ns
    char peer[PEER_BYTES]
    int32_t subject                 # has a reference; NO_SUBJECT for a batch
    int8_t phase                    # of the connection before the request
    ProducePart *part               # not NULL: a batch to check or recompress; body is the batch
    uint8_t *body                   # follows the struct, after the client id
    int64_t body_bytes
    int64_t counted_bytes           # in slow_waiting_bytes, for a request
    int8_t ended                    # not a request: the connection has ended
