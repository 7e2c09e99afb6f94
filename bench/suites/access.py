"""Measures access control: one decision, and what it adds to a Fetch or Produce request."""

from __future__ import annotations

import time
from typing import ClassVar

from bench.suites import fetch
from bowstring._native.access.acl_table import AclTable

timer = time.process_time

TOPIC_RESOURCE, LITERAL, PREFIXED = 2, 3, 4
ALL, READ, ALLOW = 2, 3, 3
PRINCIPALS = 331
RULES = 10_000


def table_of(rules: int) -> AclTable:
    """Returns rules of many teams, every fifth a prefix, and one for the topic of the benches."""
    table = AclTable()
    table.is_loaded = True
    for n in range(rules - 1):
        pattern = PREFIXED if n % 5 == 0 else LITERAL
        name = f"team-{n % 997}-topic-{n}".encode()
        table.add((TOPIC_RESOURCE, pattern, name, f"User:u{n % PRINCIPALS}".encode(), b"*", ALL, ALLOW))
    table.add((TOPIC_RESOURCE, LITERAL, fetch.TOPIC.encode(), b"User:ANONYMOUS", b"*", ALL, ALLOW))
    return table


class Decide:
    """Decisions that no reactor remembers, through Python."""

    param_names: ClassVar = ["rules"]
    params: ClassVar = [1, RULES]

    def setup(self, rules: int) -> None:
        """Makes the rules."""
        self.table = table_of(rules)

    def time_decide(self, rules: int) -> None:
        """Whether a client may read a topic with a long name."""
        self.table.allows(b"User:u5", b"10.1.2.3", READ, TOPIC_RESOURCE, b"team-5-topic-1002-of-a-long-name")

    def time_change(self, rules: int) -> None:
        """Adds a rule and removes it."""
        rule = (TOPIC_RESOURCE, PREFIXED, b"team-5-", b"User:u5", b"*", READ, ALLOW)
        self.table.add(rule)
        self.table.remove(rule)


class Fetch(fetch.Fetch):
    """`fetch.Fetch` with rules: compare them."""

    params: ClassVar = [1]

    def serve(self) -> None:
        """The same with rules."""
        super().serve()
        self.plane.set_access(table_of(RULES))

    def time_fetch(self, max_bytes: int) -> None:
        """As the one without rules."""
        self.call()


class Produce(fetch.Produce):
    """`fetch.Produce` with rules: compare them."""

    params: ClassVar = [74]

    def serve(self) -> None:
        """The same with rules."""
        super().serve()
        self.plane.set_access(table_of(RULES))

    def time_produce(self, records: int) -> None:
        """As the one without rules."""
        super().time_produce(records)
