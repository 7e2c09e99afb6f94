"""Reads PKCS12 key stores (RFC 7292), which keytool and openssl write."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from bowstring._native.tls.library cimport last_reason
from bowstring._native.tls.openssl cimport openssl
from bowstring._native.tls.library import TlsError, load


cdef bytes drain(void *bio):
    """Returns what a memory BIO holds, and frees it."""
    cdef int n = <int>openssl.BIO_ctrl_pending(bio)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, n)
    openssl.BIO_read(bio, PyBytes_AS_STRING(out), n)
    openssl.BIO_free(bio)
    return out


cdef bytes certificate_pem(void *x):
    cdef void *bio = openssl.BIO_new(openssl.BIO_s_mem())
    if bio == NULL or openssl.PEM_write_bio_X509(bio, x) != 1:
        raise MemoryError
    return drain(bio)


cdef bytes key_pem(void *key):
    cdef void *bio = openssl.BIO_new(openssl.BIO_s_mem())
    if bio == NULL or openssl.PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1:
        raise MemoryError
    return drain(bio)


cdef int open_store(void *store, bytes word, void **key, void **x, void **others) except -1:
    cdef const char *text = PyBytes_AS_STRING(word) if word is not None else NULL
    cdef int n = <int>PyBytes_GET_SIZE(word) if word is not None else 0
    if openssl.PKCS12_parse(store, text, key, x, others) == 1:
        return 0
    if openssl.PKCS12_verify_mac(store, text, n) == 1:
        raise TlsError(f"it is encrypted in a way that OpenSSL refuses ({last_reason()}): old keytools used RC2; "
                       "write it anew with keytool of Java 17 or `openssl pkcs12 -export`")
    raise TlsError("it needs a password" if word is None else "its password is wrong, or it is damaged")


def read_key_store(bytes data not None, str password):
    """Returns the certificate chain, the private key (not encrypted) and the other certificates, each as PEM.

    The first two are None in a store without a key; its certificates are the third. With a key, those that are not of its
    chain are in the chain, too.

    Raises:
        TlsError: It is no PKCS12, or its password is wrong.
    """
    cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef bytes word = password.encode() if password is not None else None
    cdef void *store = NULL
    cdef void *key = NULL
    cdef void *x = NULL
    cdef void *others = NULL
    cdef int i
    load()
    openssl.ERR_clear_error()
    store = openssl.d2i_PKCS12(NULL, &at, <long>PyBytes_GET_SIZE(data))
    if store == NULL:
        raise TlsError(f"it is no PKCS12 key store ({last_reason()})")
    try:
        open_store(store, word, &key, &x, &others)
        rest = [certificate_pem(openssl.OPENSSL_sk_value(others, i)) for i in range(openssl.OPENSSL_sk_num(others))]
        if key == NULL:
            return None, None, b"".join(rest if x == NULL else [certificate_pem(x), *rest])
        if x == NULL:
            raise TlsError("it has a private key without its certificate")
        return certificate_pem(x) + b"".join(rest), key_pem(key), b""
    finally:
        openssl.ERR_clear_error()
        openssl.PKCS12_free(store)
        if key != NULL:
            openssl.EVP_PKEY_free(key)
        if x != NULL:
            openssl.X509_free(x)
        if others != NULL:
            openssl.OPENSSL_sk_pop_free(others, openssl.X509_free)
