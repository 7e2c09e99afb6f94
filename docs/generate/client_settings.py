"""Renders the page of client settings from the tables in `clients/config` and the clients' own signatures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import bowstring
from bowstring.clients.config.client import ADMIN, CONSUMER, SHARE_CONSUMER
from bowstring.clients.config.config_table import ConfigTable
from bowstring.clients.producer.config import PRODUCER
from bowstring.security.security_names import SECURITY_NAMES
from docs.generate.markdown import code, plain, table

HEAD = """\
# Client settings

The arguments of the clients, and the names under which users of other clients know them.
`Consumer(group_id="readers")`, `Consumer({"group.id": "readers"})` and `Consumer(**{"group.id":
"readers"})` mean the same; names with underscores instead of dots, as kafka-python has them, are accepted,
too. An unknown name is refused, with the nearest known one.
"""

SECURITY = """\
## TLS and SASL

The keys of `security=` of every client; each may also be a keyword of the client, with underscores.
"""

CLIENTS: dict[ConfigTable, Any] = {
    PRODUCER: bowstring.Producer,
    CONSUMER: bowstring.Consumer,
    SHARE_CONSUMER: bowstring.ShareConsumer,
    ADMIN: bowstring.Admin,
}


def render() -> str:
    """The page as Markdown."""
    lines = [HEAD]
    for names, client in CLIENTS.items():
        lines += [
            f"## {names.client}",
            *table(("argument", "default", "other names", "meaning"), _arguments(names, client)),
        ]
        lines += [
            f"### Names that {names.client} refuses",
            "",
            "They have no argument. A value that asks for what the client does anyway is accepted.",
            *table(("name", "reason"), _refused(names)),
        ]
    lines += [SECURITY, *table(("name", "other names", "meaning"), _security())]
    return "\n".join(lines)


def _security() -> Iterator[tuple[str, ...]]:
    for row in SECURITY_NAMES:
        yield code(row.name), ", ".join(map(code, row.others)), plain(row.meaning)


def _arguments(names: ConfigTable, client: Any) -> Iterator[tuple[str, ...]]:
    meanings = argument_docs(client)
    others: dict[str, list[str]] = {}
    for row in names.rows.values():
        if row.argument:
            others.setdefault(row.argument, []).append(code(row.name))
    for argument in inspect.signature(client.__init__).parameters.values():
        if argument.name != "self" and argument.kind is not argument.VAR_KEYWORD:
            default = "" if argument.default is argument.empty else code(repr(argument.default))
            known = ", ".join(others.get(argument.name, ()))
            if argument.name == "security":
                known = "[TLS and SASL](#tls-and-sasl)"
            yield code(argument.name), default, known, meanings.get(argument.name, "")


def _refused(names: ConfigTable) -> Iterator[tuple[str, str]]:
    return ((code(row.name), plain(row.reason)) for row in names.rows.values() if not row.argument)


def argument_docs(client: Any) -> dict[str, str]:
    """Meaning by argument: the section `Args:` of the class's docstring."""
    text = inspect.cleandoc(client.__doc__ or "")
    section = re.search(r"^Args:\n((?: +.*\n|\n)+)", text + "\n", re.M)
    found: dict[str, str] = {}
    for entry in re.findall(r"^ {4}(\w[\w, ]*): (.+(?:\n {5,}.+)*)", section[1] if section else "", re.M):
        for name in entry[0].split(", "):
            found[name] = plain(entry[1])
    return found
