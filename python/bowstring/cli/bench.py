"""Implements `bowstring bench`: runs the benchmarks, which are in the source checkout but not in the
package.
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer

app = typer.Typer(no_args_is_help=True, help="Run benchmarks. Needs a checkout of the source.")
CHECKOUT = Path(__file__).resolve().parents[3]


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False
)
def kreps(context: typer.Context) -> None:
    """Run the 2014 test, two million writes a second, against Bowstring and Apache Kafka; see --help."""
    from bowstring.clients.errors import ConfigError

    if not (CHECKOUT / "bench" / "kreps").is_dir():
        raise ConfigError("the benchmarks are not part of the package: run this in a checkout of the source")
    sys.path.insert(0, str(CHECKOUT))
    from bench.kreps.__main__ import main

    raise typer.Exit(main(context.args))
