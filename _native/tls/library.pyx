"""Loads OpenSSL, and holds the table of its functions for this package."""
from bowstring._native.tls.openssl cimport openssl, openssl_load

cdef extern from *:
    """
    OpenSsl openssl;
    """


class TlsError(ValueError):
    """A certificate, key, setting or peer is not acceptable; the message says what to do."""


class TlsUnavailableError(TlsError):
    """OpenSSL 3 cannot be loaded."""


def load():
    """Loads libssl.so.3 and libcrypto.so.3, once.

    Raises:
        TlsUnavailableError: They are missing or of another version.
    """
    cdef char why[256]
    if not openssl_load(why, sizeof(why)):
        raise TlsUnavailableError(
            f"TLS needs OpenSSL 3 (libssl.so.3): {(<bytes>why).decode('utf-8', 'replace')}; "
            "install it (Debian, Ubuntu: apt install libssl3, or libssl3t64), or use plain text")


cdef str reason_of(unsigned long code):
    """OpenSSL's text for an error, or an empty text."""
    cdef const char *text = openssl.ERR_reason_error_string(code) if code != 0 else NULL
    return "" if text == NULL else (<bytes>text).decode("ascii", "replace")


cdef str last_reason():
    return reason_of(openssl.ERR_peek_last_error())
