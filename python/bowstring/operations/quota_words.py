"""Writes a sentence for what a quota means."""

from __future__ import annotations

import math

from bowstring.clients.admin.client_quotas import QuotaEntity

_WORDS = {
    "producer_byte_rate": "produce at most {size}/s",
    "consumer_byte_rate": "fetch at most {size}/s",
    "request_percentage": "use at most {value:g} % of a thread for requests",
    "controller_mutation_rate": "create and delete at most {value:g} partitions/s",
    "connection_creation_rate": "connect at most {value:g} times/s",
}

QUOTA_PARTS = {
    "user": ("user",),
    "client-id": ("client-id",),
    "both": ("user", "client-id"),
    "ip": ("ip",),
}
"""The parts of an entity, by whose quota it is."""


def quota_entity_text(entity: QuotaEntity) -> str:
    """Returns whose quota it is, such as `user alice with client id app`."""
    names = dict(entity)
    words = []
    if "user" in names:
        words.append("each other user" if names["user"] is None else f"user {names['user']}")
    if "client-id" in names:
        client = names["client-id"]
        text = "each other client id" if client is None else f"client id {client}"
        words.append(f"with {text}" if words else text)
    if "ip" in names:
        words.append("each other address" if names["ip"] is None else f"address {names['ip']}")
    return " ".join(words)


def quota_sentence(entity: QuotaEntity, name: str, value: float) -> str:
    """Returns what a quota means, such as `user alice may produce at most 1.0 MiB/s on each broker`."""
    words = _WORDS.get(name, "have at most {value:g} " + name)
    size = _size_text(value) if math.isfinite(value) else str(value)
    does = words.format(size=size, value=value)
    return f"{quota_entity_text(entity)} may {does} on each broker"


def _size_text(size_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def quota_fields(entity: QuotaEntity, quota: str, value: float) -> dict[str, str]:
    """Returns a quota as the fields of a form: whose, name, client, quota, value."""
    names = dict(entity)
    whose = next((each for each, parts in QUOTA_PARTS.items() if set(parts) == set(names)), "user")
    first = QUOTA_PARTS[whose][0]
    return {
        "whose": whose,
        "name": names.get(first) or "",
        "client": (names.get("client-id") or "") if whose == "both" else "",
        "quota": quota,
        "value": f"{value:g}" if value != int(value) else str(int(value)),
    }
