"""Implements `bowstring demo`, which `make run` runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bowstring.cli.options import Json


def demo(
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Seconds to push records.")] = 10,
    flights: Annotated[
        int | None, typer.Option("--flights", min=1, help="Replay only this many flights.")
    ] = None,
    records: Annotated[
        int, typer.Option("--records", min=1, help="Records of each of the three producers at the end.")
    ] = 5_000_000,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Save the output as SVG.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Use Spark to count flights and read records.")
    ] = True,
    json: Json = False,
) -> None:
    """Replay 336,776 flights through an embedded broker, count them with Spark, then run three producers at
    once.
    """
    from bowstring.demo import run

    if not run(
        push_seconds=seconds,
        flights_max=flights,
        headline_records=records,
        json=json,
        picture=picture,
        spark=spark,
    ):
        raise typer.Exit(1)
