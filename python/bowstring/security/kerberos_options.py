"""Reads keytab, ticket cache and principal from a JAAS line of Java's Krb5LoginModule."""

from __future__ import annotations

from typing import NamedTuple

from bowstring.security.jaas import Login


class KerberosOptionsError(ValueError):
    """Options are missing or contradict one another."""


class KerberosOptions(NamedTuple):
    """What a log-in uses.

    Attributes:
        uses_keytab: a key of a keytab.
        keytab: its path.
        uses_cache: tickets of a ticket cache, before the keytab.
        ticket_cache: its path; empty for the default one.
        principal: whose; empty for that of the keytab or the cache.
        service: the first part of brokers' principals; empty when it is not given.
    """

    uses_keytab: bool
    keytab: str
    uses_cache: bool
    ticket_cache: str
    principal: str
    service: str


def kerberos_options(login: Login, service: str | None) -> KerberosOptions:
    """Returns the options of a line.

    Args:
        service: sasl.kerberos.service.name.

    Raises:
        KerberosOptionsError: the line names another service, or uses neither keytab nor ticket cache, or
            does not name the keytab.
    """
    options = login.options
    given = options.get("serviceName")
    if given and service and given != service:
        raise KerberosOptionsError(
            f"serviceName is {given}, but sasl.kerberos.service.name is {service}; remove one"
        )
    uses_keytab, uses_cache = (
        options.get(name, "").lower() == "true" for name in ("useKeyTab", "useTicketCache")
    )
    if not uses_keytab and not uses_cache:
        raise KerberosOptionsError(
            f"{login.module} has no credentials: set useKeyTab=true with keyTab and principal, or "
            "useTicketCache=true"
        )
    if uses_keytab and not options.get("keyTab"):
        raise KerberosOptionsError('useKeyTab=true needs keyTab="FILE"')
    return KerberosOptions(
        uses_keytab,
        options.get("keyTab", "") if uses_keytab else "",
        uses_cache,
        options.get("ticketCache", "") if uses_cache else "",
        options.get("principal", ""),
        service or given or "",
    )
