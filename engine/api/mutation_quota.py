"""Finds the quota for the partitions that a request creates or deletes (KIP-599)."""

from typing import TYPE_CHECKING

from bowstring.engine.requests.listeners import WITHIN

if TYPE_CHECKING:
    from bowstring.engine.controller.mutation_quotas import MutationQuota, MutationQuotas
    from bowstring.engine.requests.request import Request


def mutation_quota(
    mutation_quotas: "MutationQuotas", request: "Request", *, strict_since: int
) -> "MutationQuota":
    """Returns the quota of a request's client, which is strict from a version on. What this node creates for
    itself, such as internal topics, has none.
    """
    if request.listener is WITHIN and not request.is_forwarded:
        return mutation_quotas.unlimited
    return mutation_quotas.of(request.principal, request.client_id, is_strict=request.version >= strict_since)
