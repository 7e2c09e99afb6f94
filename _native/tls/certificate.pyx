"""Reads an X.509 certificate: whose it is, for which names, and how long."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.time cimport tm
from bowstring._native.tls.openssl cimport NID_SUBJECT_ALT_NAME, openssl
from bowstring._native.tls.library import TlsError, load

cdef extern from "<time.h>" nogil:
    long timegm(tm *parts)

cdef enum:
    NAME_DNS = 2
    NAME_ADDRESS = 7
    OID_BYTES = 128

# The attributes that RFC 2253 has names for; others are OID=#value.
_KEYWORDS = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU",
    "2.5.4.9": "STREET", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}


cdef str escaped(str text):
    """A value as RFC 2253 has it in a name."""
    out = "".join("\\" + each if each in ',+"\\<>;' else each for each in text)
    if out.startswith(("#", " ")):
        out = "\\" + out
    return out[:len(out) - 1] + "\\ " if len(text) > 1 and text.endswith(" ") else out


cdef bytes der_string(void *text):
    """The DER of a value, whose kind of string may be any."""
    cdef int n = openssl.ASN1_STRING_length(text)
    cdef bytes data = PyBytes_FromStringAndSize(<const char *>openssl.ASN1_STRING_get0_data(text), n)
    length = bytes([n]) if n < 128 else bytes([0x82]) + n.to_bytes(2, "big")
    return bytes([openssl.ASN1_STRING_type(text) & 0x1f]) + length + data


cdef str attribute(void *entry):
    cdef char oid[OID_BYTES]
    cdef unsigned char *data = NULL
    cdef void *value = openssl.X509_NAME_ENTRY_get_data(entry)
    cdef int n
    openssl.OBJ_obj2txt(oid, OID_BYTES, openssl.X509_NAME_ENTRY_get_object(entry), 1)
    name = (<bytes>oid).decode("ascii")
    keyword = _KEYWORDS.get(name)
    n = openssl.ASN1_STRING_to_UTF8(&data, value) if keyword is not None else -1
    if n < 0:
        return f"{keyword or name}=#{der_string(value).hex()}"
    try:
        return f"{keyword}={escaped((<const char *>data)[:n].decode('utf-8', 'replace'))}"
    finally:
        openssl.CRYPTO_free(data, NULL, 0)


cdef str subject_of(void *x):
    """The distinguished name (RFC 2253): the last part first."""
    cdef void *name = openssl.X509_get_subject_name(x)
    cdef void *entry
    cdef int i, part, last = -1
    parts = []
    for i in range(openssl.X509_NAME_entry_count(name)):
        entry = openssl.X509_NAME_get_entry(name, i)
        part = openssl.X509_NAME_ENTRY_set(entry)
        if part == last:
            parts.append(f"{parts.pop()}+{attribute(entry)}")
        else:
            parts.append(attribute(entry))
        last = part
    return ",".join(reversed(parts))


cdef object names_of(void *x):
    """The subjectAltNames that name hosts: DNS names, and addresses as hexadecimal digits."""
    cdef void *names = openssl.X509_get_ext_d2i(x, NID_SUBJECT_ALT_NAME, NULL, NULL)
    cdef void *value
    cdef int i, kind
    found = set()
    if names == NULL:
        return frozenset()
    for i in range(openssl.OPENSSL_sk_num(names)):
        value = openssl.GENERAL_NAME_get0_value(openssl.OPENSSL_sk_value(names, i), &kind)
        if kind == NAME_DNS or kind == NAME_ADDRESS:
            data = (<const char *>openssl.ASN1_STRING_get0_data(value))[:openssl.ASN1_STRING_length(value)]
            found.add(data.decode("ascii", "replace").lower() if kind == NAME_DNS else f"address:{data.hex()}")
    openssl.GENERAL_NAMES_free(names)
    return frozenset(found)


cdef int64_t time_ms(const void *when):
    cdef tm parts
    return timegm(&parts) * 1000 if openssl.ASN1_TIME_to_tm(when, &parts) == 1 else 0


cdef class Certificate:
    """An X.509 certificate.

    Args:
        der: Its DER.

    Attributes:
        subject: Its distinguished name (RFC 2253): ``CN=alice,O=Bowstring``.
        names: Its subjectAltNames that are DNS names or addresses.
        valid_from_ms, valid_until_ms: Milliseconds since the epoch.

    Raises:
        TlsError: It is no certificate.
    """
    cdef readonly str subject
    cdef readonly object names
    cdef readonly int64_t valid_from_ms
    cdef readonly int64_t valid_until_ms

    def __init__(self, bytes der not None):
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(der)
        cdef void *x
        load()
        x = openssl.d2i_X509(NULL, &at, <long>PyBytes_GET_SIZE(der))
        if x == NULL:
            openssl.ERR_clear_error()
            raise TlsError("these bytes are no certificate")
        try:
            self.subject = subject_of(x)
            self.names = names_of(x)
            self.valid_from_ms = time_ms(openssl.X509_get0_notBefore(x))
            self.valid_until_ms = time_ms(openssl.X509_get0_notAfter(x))
        finally:
            openssl.X509_free(x)
