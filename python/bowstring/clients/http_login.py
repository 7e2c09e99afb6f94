"""Logs clients in to HTTP servers: by basic and bearer authentication, and by certificates."""

from __future__ import annotations

import base64
import ssl
from typing import NamedTuple

from bowstring.clients.errors import ConfigError


class HttpLogin(NamedTuple):
    """How to log in to a server.

    Attributes:
        user, password: for basic authentication.
        token: for bearer authentication.
        ca_file: certificates of authorities, PEM; "": the system's.
        cert_file, key_file: the client's certificate and its key, PEM.
    """

    user: str = ""
    password: str = ""
    token: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def __repr__(self) -> str:
        return "HttpLogin(…)"

    def authorization(self) -> str:
        """Returns the header Authorization; empty without a user and a token."""
        if self.token:
            return f"Bearer {self.token}"
        if not self.user:
            return ""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def tls(self, server: str) -> ssl.SSLContext:
        """Returns the context of TLS.

        Args:
            server: what it is, for the error.

        Raises:
            ConfigError: a certificate cannot be used.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file or None)
        except OSError as error:
            files = [each for each in (self.ca_file, self.cert_file, self.key_file) if each]
            raise ConfigError(f"a certificate of {server} cannot be used ({error}): {files}") from None
        return context
