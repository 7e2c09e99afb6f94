"""Implements `bowstring certs`: create, show."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bowstring.cli.options import Json
from bowstring.cli.output import print_hint, print_json, print_note, print_table
from bowstring.cli.tables import Cell

if TYPE_CHECKING:
    from bowstring.cluster.certificates import CertificateFacts

HELP = """\
Make certificates for development, and show what certificates contain.

The authority's key lies in the directory, unencrypted: whoever has it can make certificates that your brokers
trust. In production, take certificates from your own authority.
"""

app = typer.Typer(help=HELP, no_args_is_help=True)

HOSTS = ["localhost", "127.0.0.1", "::1"]
DAYS = 365
DAYS_MAX = 3650


@app.command()
def create(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go.")],
    host: Annotated[
        list[str],
        typer.Option("--host", metavar="NAME|IP", help="Where clients reach brokers; may be repeated."),
    ] = HOSTS,
    client: Annotated[
        list[str],
        typer.Option(
            "--client",
            metavar="NAME",
            help="A client with its own certificate; may be repeated.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer copies it
    days: Annotated[
        int, typer.Option("--days", min=1, max=DAYS_MAX, help="How long certificates are valid.")
    ] = DAYS,
    json: Json = False,
) -> None:
    """Make an authority, a certificate for brokers and some for clients, with settings to use them.

    An authority that DIR has is used again: brokers and the named clients get new certificates, others keep
    theirs. Running brokers take the new files within seconds.
    """
    from bowstring.cluster.certificate_snippets import write_snippets
    from bowstring.cluster.certificates import AUTHORITY, Authority, check_names, read_certificates

    check_names(host, client)
    authority = Authority(directory)
    files = [directory / AUTHORITY, authority.issue_broker(host, days=days)]
    files += [authority.issue_client(each, days=days) for each in dict.fromkeys(client)]
    snippets = write_snippets(directory, dict.fromkeys(client))
    made = [(path, facts) for path in files for facts in read_certificates(path)]
    if json:
        print_json([_json(path, facts) for path, facts in made])
        return
    kept = "" if authority.is_new else ", with the authority that was there"
    print_note(f"certificates are in {directory}{kept}; only you can read the keys")
    _print(made)
    print_hint(f"settings to use them: {', '.join(path.name for path in snippets)}")


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A PEM file.")],
    json: Json = False,
) -> None:
    """Show whom the certificates in a file are for, and how long they are valid. Exit code 1: one is not."""
    from bowstring.cluster.certificates import read_certificates

    found = [(file, facts) for facts in read_certificates(file)]
    if json:
        print_json([_json(*each) for each in found])
    else:
        _print(found)
    now = datetime.now(UTC)
    if any(not facts.not_before <= now < facts.not_after for _, facts in found):
        raise typer.Exit(1)


def _print(found: list[tuple[Path, CertificateFacts]]) -> None:
    rows: list[list[Cell]] = [
        [
            path.name,
            facts.subject,
            ", ".join(facts.hosts) or None,
            f"{facts.not_after:%Y-%m-%d}",
            _left(facts),
            facts.key,
        ]
        for path, facts in found
    ]
    print_table(["file", "subject", "hosts", "valid until", "days left", "key"], rows)


def _left(facts: CertificateFacts) -> str:
    now = datetime.now(UTC)
    if now < facts.not_before:
        return f"not valid before {facts.not_before:%Y-%m-%d %H:%M} UTC"
    return f"{facts.days_left(now):,}" if now < facts.not_after else "expired"


def _json(path: Path, facts: CertificateFacts) -> dict[str, object]:
    return {
        "file": str(path),
        "subject": facts.subject,
        "issuer": facts.issuer,
        "hosts": list(facts.hosts),
        "not_before": facts.not_before.isoformat(),
        "not_after": facts.not_after.isoformat(),
        "days_left": facts.days_left(datetime.now(UTC)),
        "is_authority": facts.is_authority,
        "key": facts.key,
        "has_private_key": facts.has_private_key,
    }
