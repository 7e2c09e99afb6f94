"""Records what a program answers.

    python -m tests.support.conversations registry URL FILE
    python -m tests.support.conversations rest URL FILE BROKERS

The registry is empty. The proxy's brokers have automatic creation of topics switched off; a topic is made there.
"""

import http.client
import json
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from bowstring import Admin
from tests.support.conversations.exchange import Exchange, facts
from tests.support.conversations.registry_conversation import registry_requests
from tests.support.conversations.rest_conversation import PLAIN, rest_requests

JSON = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S = 60.0


def ask(url: str, exchange: Exchange, kind: str, names: dict[str, str]) -> list:
    """Returns the facts of an answer.

    Args:
        url: of the program.
        exchange: the request.
        kind: type of bodies that name none.
        names: of this run, by what stands for them in facts.
    """
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    connection.request(exchange.method, exchange.target, exchange.sent, exchange.headers(kind))
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    for placeholder, name in names.items():
        body = body.replace(name.encode(), placeholder.encode())
    return facts(answer.status, body)


def recorded(url: str, requests: Sequence[Exchange], kind: str, names: dict[str, str]) -> dict[str, list]:
    """Returns the facts of all answers by the names of the requests."""
    found = {each.name: ask(url, each, kind, names) for each in requests}
    assert len(found) == len(requests), "two requests have one name"
    return found


def rest_facts(url: str, brokers: str) -> dict[str, list]:
    """Returns the facts of a REST proxy, with a topic of its own."""
    names = {"TOPIC": f"topic-{uuid.uuid4().hex}", "GROUP": f"group-{uuid.uuid4().hex}"}
    with Admin(brokers) as admin:
        admin.create_topic(names["TOPIC"], 2)
    return recorded(url, rest_requests(names["TOPIC"], names["GROUP"]), PLAIN, names)


def main(program: str, url: str, path: str, brokers: str = "") -> None:
    """Records one conversation."""
    found = rest_facts(url, brokers) if program == "rest" else recorded(url, registry_requests(), JSON, {})
    lines = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in found.items())
    Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
