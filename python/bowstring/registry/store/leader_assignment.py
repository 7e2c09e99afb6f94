"""Elects the leader among the members of a group of registries: pure.

The first member of the group (the group's leader, who need not become the registry's) elects, and the group
coordinator passes the result to all. The rules are those of Confluent's registry: the eligible member with
the smallest URL leads, and one that led before keeps leading (`leader.election.sticky`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from bowstring.registry.store.member_identity import VERSION, MemberIdentity, decoded_object

_log = logging.getLogger("bowstring.registry")

NO_ERROR = 0
DUPLICATE_URLS = 1


class LeaderAssignment(NamedTuple):
    """The outcome of an election, the same for every member.

    Attributes:
        error: NO_ERROR, or DUPLICATE_URLS: two members have one URL, so that requests cannot be forwarded.
        master: the leader's member id; None without a leader.
        identity: the leader's.
    """

    error: int = NO_ERROR
    master: str | None = None
    identity: MemberIdentity | None = None

    def encode(self) -> bytes:
        """Returns the bytes that SyncGroup passes to a member."""
        told: dict[str, Any] = {"version": VERSION, "error": self.error}
        if self.master is not None and self.identity is not None:
            told |= {"master": self.master, "master_identity": self.identity.as_json()}
        return json.dumps(told, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decodes an assignment of any registry. An ineligible leader, which Karapace names if no member is
        eligible, is none.

        Raises:
            ValueError: the bytes are not an assignment.
        """
        told = decoded_object(data)
        error = told.get("error", NO_ERROR) if isinstance(told, dict) else None
        if not isinstance(error, int):
            raise ValueError("the assignment of a registry must be a JSON object with an error number")
        master, identity = told.get("master"), told.get("master_identity")
        if not isinstance(master, str) or identity is None:
            return cls(error)
        leader = MemberIdentity.of(identity)
        return cls(error, master, leader) if leader.eligible else cls(error)


def elect(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Elects a leader; returns the encoded assignment of each member.

    Args:
        members: metadata by member id.
    """
    identities: dict[str, MemberIdentity] = {}
    for member_id, metadata in members.items():
        try:
            identities[member_id] = MemberIdentity.decode(metadata)
        except ValueError as error:
            _log.warning("member %r of the registry's group cannot lead: %s", member_id, error)
    outcome = _elected(identities)
    assignment = outcome.encode()
    assignments = dict.fromkeys(members, assignment)
    if outcome.master is None and identities:
        # Karapace's registries stop at an assignment without a leader; an ineligible one is none to them.
        fallback = min(identities, key=lambda each: identities[each].url)
        none = LeaderAssignment(outcome.error, fallback, identities[fallback]).encode()
        assignments |= {each: none for each, identity in identities.items() if identity.is_karapace}
    return assignments


def _elected(identities: Mapping[str, MemberIdentity]) -> LeaderAssignment:
    urls = {identity.url for identity in identities.values()}
    error = NO_ERROR if len(urls) == len(identities) else DUPLICATE_URLS
    eligible = {each: identity for each, identity in identities.items() if identity.eligible}
    if not eligible:
        return LeaderAssignment(error)
    leading = [each for each, identity in eligible.items() if identity.leader]
    master = leading[0] if len(leading) == 1 else min(eligible, key=lambda each: (eligible[each].url, each))
    return LeaderAssignment(error, master, eligible[master])
