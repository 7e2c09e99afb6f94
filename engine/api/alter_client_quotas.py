"""Handles AlterClientQuotas: sets and removes client quotas (KIP-546)."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bowstring.engine.controller.client_quotas import alter_client_quotas
from bowstring.engine.controller.decision import check_not_too_many
from bowstring.engine.metadata.client_quotas_image import IP
from bowstring.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)

if TYPE_CHECKING:
    from bowstring.engine.controller.service import QuorumController
    from bowstring.engine.requests.request import Request
    from bowstring.engine.requests.time_slices import TimeSlices


async def handle(
    request: "Request", *, controller: "QuorumController", time_slices: "TimeSlices"
) -> AlterClientQuotasResponse:
    """Changes the quotas of each entity completely, or not at all; one commit covers all.

    Behaviour: brokers enforce what is committed. validate_only checks everything and changes nothing. Names
    of hosts are resolved here, before the controller's turn. A node that is not the active controller answers
    NOT_CONTROLLER for each entity.

    Versions: 1 changes only the encoding.
    """
    body: AlterClientQuotasRequest = request.body
    body.entries = [each async for each in time_slices.each(body.entries)]
    check_not_too_many(len(body.entries))
    hosts = {
        part.entity_name
        for entry in body.entries
        for part in entry.entity
        if part.entity_type == IP and part.entity_name and not _is_address(part.entity_name)
    }
    unknown = await asyncio.get_running_loop().run_in_executor(None, _unknown, hosts) if hosts else set()
    answer: AlterClientQuotasResponse = await controller.run(
        lambda state, now_ms: alter_client_quotas(state.image.client_quotas, body, unknown_hosts=unknown)
    )
    return answer


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _unknown(hosts: Iterable[str]) -> set[str]:
    """Returns the hosts without an address. Slow: looks them up by DNS."""
    unknown = set()
    for host in hosts:
        try:
            socket.getaddrinfo(host, None)
        except (OSError, UnicodeError):
            unknown.add(host)
    return unknown
