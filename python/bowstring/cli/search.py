"""Implements `bowstring search`: prints the records that match, newest first."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from bowstring.cli.command_config import security
from bowstring.cli.consume import Show
from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout, timestamp_ms
from bowstring.cli.output import print_hint

TURN_S = 2.0


def search(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to look through.")],
    expression: Annotated[
        str | None,
        typer.Argument(
            metavar="[EXPRESSION]",
            help="""Condition over typed values, such as 'value.user.id > 10 and headers["x"] == "1"'.""",
        ),
    ] = None,
    text: Annotated[str, typer.Option("--text", help="Text in value or key; a and A are the same.")] = "",
    key: Annotated[str | None, typer.Option("--key", "-k", help="The whole key.")] = None,
    header: Annotated[
        str, typer.Option("--header", metavar="NAME[=TEXT]", help="Header, or text in a header.")
    ] = "",
    partition: Annotated[
        list[int], typer.Option("--partition", "-p", help="Only this one; may be repeated.")
    ] = [],  # noqa: B006 - typer copies it
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Oldest first from 2013-01-01T05:15 on.")
    ] = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest first.")] = False,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Stop after this many.")] = 20,
    committed: Annotated[bool, typer.Option("--read-committed", help="Skip aborted transactions.")] = False,
    schema_registry: Annotated[
        str | None,
        typer.Option(metavar="URL", envvar="BOWSTRING_SCHEMA_REGISTRY", help="For Avro and Protobuf by ids."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Print records that match, newest first.

    Looks through the whole topic, until --count records are found. Values of more than 1 MiB are null to
    expressions.
    """
    from bowstring.search.expression import Expression
    from bowstring.search.record_filter import RecordFilter
    from bowstring.search.record_search import SearchRequest

    name, _, part = header.partition("=")
    wanted = RecordFilter(
        text,
        None if key is None else key.encode(),
        name,
        part,
        Expression(expression) if expression else None,
    )
    start: dict[str, Any] = {} if since is None else {"start": "time", "at": timestamp_ms(since, "--since")}
    newest = not oldest and since is None
    request = SearchRequest(topic, tuple(partition), newest, count=count, committed=committed, wanted=wanted)
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "security": security()}
    settings |= {"client_id": "bowstring-cli", "default_timeout_ms": int(timeout * 1000)}
    _print(settings, request, start, schema_registry, Show(True, False, True, True, "\t", json))


def _print(
    settings: dict[str, Any], request: Any, start: dict[str, Any], schema_registry: str | None, show: Show
) -> None:
    from dataclasses import replace

    from bowstring.clients.registry.registry_client import RegistryClient
    from bowstring.search.record_search import SearchLimits, search
    from bowstring.search.value_decoder import ValueDecoder

    decoder = ValueDecoder(RegistryClient(schema_registry) if schema_registry else None)
    whole = sys.maxsize
    limits = SearchLimits(TURN_S, whole, whole, kept_bytes=whole)
    request = replace(request, **start)
    left, undecoded = request.count, 0
    while True:
        result = search(settings, replace(request, count=left), decoder, limits)
        for each in result.found:
            show.print(each.record)
        sys.stdout.flush()
        left, undecoded = left - len(result.found), undecoded + result.undecoded
        if result.cursor is None or left <= 0:
            break
        request = replace(request, cursor=result.cursor)
    if left == request.count:
        print_hint(f"no record matches: looked at {result.total:,} offsets")
    if undecoded:
        print_hint(f"{undecoded} values of more than 1 MiB were null to the expression")
