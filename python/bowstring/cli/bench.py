"""`bowstring bench`: the benchmarks, which are part of the source and not of the package."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

app = typer.Typer(no_args_is_help=True, help="Benchmarks; they run in a checkout of the source.")
CHECKOUT = Path(__file__).resolve().parents[3]


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False
)
def kreps(context: typer.Context) -> None:
    """The 2014 test, two million writes a second, against Bowstring and Apache Kafka; --help says more."""
    from bowstring.clients.errors import ConfigError

    if not (CHECKOUT / "bench" / "kreps").is_dir():
        raise ConfigError("the benchmarks are not part of the package: run this in a checkout of the source")
    sys.path.insert(0, str(CHECKOUT))
    from bench.kreps.__main__ import main

    raise typer.Exit(main(context.args))
