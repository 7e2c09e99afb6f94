"""Runs `python -m tests.support.conversations URL FILE`: records what the empty registry at URL answers."""

import http.client
import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.conversations.exchange import Exchange, facts
from tests.support.conversations.registry_conversation import registry_requests

JSON = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S = 60.0


def ask(url: str, exchange: Exchange) -> list:
    """Returns the facts of an answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    headers = {} if exchange.body is None else {"content-type": exchange.kind or JSON}
    connection.request(exchange.method, exchange.target, exchange.sent, headers)
    answer = connection.getresponse()
    found = facts(answer.status, answer.read())
    connection.close()
    return found


def main(url: str, path: str) -> None:
    """Records the conversation."""
    requests = registry_requests()
    found = {each.name: ask(url, each) for each in requests}
    assert len(found) == len(requests), "two requests have one name"
    lines = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in found.items())
    Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
