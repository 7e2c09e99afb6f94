"""TLS contexts of tests: ours, and those of Python's ssl module as the foreign peer."""

import ssl
import tempfile
from typing import Any

from bowstring._native.tls.context import TlsContext
from tests.support.certificates import Identity, authority, server_identity


def server_context(identity: Identity | None = None, **settings: Any) -> TlsContext:
    identity = identity or server_identity()
    return TlsContext(
        server=True, certificate_chain=identity.certificate, private_key=identity.key, **settings
    )


def client_context(**settings: Any) -> TlsContext:
    return TlsContext(server=False, **{"trusted": authority().certificate, **settings})


def load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Gives a context of Python a certificate, which it reads only from files."""
    with tempfile.NamedTemporaryFile() as both:
        both.write(identity.certificate + identity.key)
        both.flush()
        context.load_cert_chain(both.name)


def python_context(identity: Identity | None = None) -> ssl.SSLContext:
    """A client's, which trusts the authority of the tests."""
    context = ssl.create_default_context(cadata=authority().certificate.decode())
    if identity is not None:
        load_identity(context, identity)
    return context
