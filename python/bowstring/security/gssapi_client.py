"""Implements the client's side of GSSAPI (RFC 4752): Kerberos, without a security layer."""

from __future__ import annotations

from collections.abc import Callable

from bowstring.security.kerberos import (
    CLIENT_UNKNOWN,
    CLOCK_SKEW,
    NO_KDC,
    NO_TICKETS,
    SERVICE_UNKNOWN,
    TICKET_EXPIRED,
    GssContext,
    KerberosError,
)
from bowstring.security.sasl_client import SaslClient, SaslError

_NO_LAYER = 1
_CHOICE = bytes([_NO_LAYER, 0, 0, 0])
_NAMES = "sasl.kerberos.keytab and sasl.kerberos.principal"


class GssapiClient(SaslClient):
    """Presents a ticket, and checks that the server has the service's key.

    Args:
        new_context: returns a context with the service. Called once, by `first`; may wait for a KDC.
        service: name of the service and its host, for errors.
    """

    mechanism = "GSSAPI"

    def __init__(self, new_context: Callable[[], GssContext], service: str):
        super().__init__()
        self._new_context, self._service = new_context, service
        self._context: GssContext | None = None

    def first(self) -> bytes:
        """See SaslClient."""
        try:
            self._context = self._new_context()
            return self._context.step(b"")
        except KerberosError as error:
            raise self._failed(error) from error

    def next(self, challenge: bytes) -> bytes | None:
        """See SaslClient."""
        context = self._context
        assert context is not None, "first comes first"
        if self.is_done:
            if challenge:
                raise SaslError("the server sent a message after the end of the exchange")
            return None
        try:
            if not context.is_complete:
                return context.step(challenge)
            offer = context.unwrap(challenge)
            if len(offer) != len(_CHOICE) or not offer[0] & _NO_LAYER:
                raise SaslError(
                    "the server demands a security layer of SASL, which Kafka's protocol does not have"
                )
            self.is_done = True
            # Without a name at its end: the client acts as itself.
            return context.wrap(_CHOICE)
        except KerberosError as error:
            raise self._failed(error) from error

    def _failed(self, error: KerberosError) -> SaslError:
        cures = {
            CLIENT_UNKNOWN: "check sasl.kerberos.principal",
            SERVICE_UNKNOWN: (
                "check sasl.kerberos.service.name, and that the brokers' host names (bootstrap.servers, "
                "advertised.listeners) are those of their principals"
            ),
            TICKET_EXPIRED: f"run kinit again, or give {_NAMES}",
            CLOCK_SKEW: "set this machine's clock and the KDC's by NTP",
            **dict.fromkeys(NO_TICKETS, f"run kinit, or give {_NAMES}"),
            **dict.fromkeys(NO_KDC, "check the realm in krb5.conf, and that its KDC can be reached"),
        }
        cure = cures.get(error.code)
        text = f"Kerberos, as a client of {self._service}: {error}"
        found = SaslError(f"{text}; {cure}" if cure else text)
        found.retriable = error.code in NO_KDC
        return found
