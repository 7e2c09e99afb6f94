"""Implements `bowstring monitoring`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from bowstring.cli.output import print_hint


def monitoring(
    directory: Annotated[Path, typer.Argument(help="Where to write; made if missing.", metavar="DIRECTORY")],
) -> None:
    """Write dashboards for Grafana and alert rules for Prometheus, for the metrics of this version.

    Files of the same names that stand there are replaced.
    """
    from bowstring.monitoring import monitoring_files

    directory.mkdir(parents=True, exist_ok=True)
    for path in monitoring_files():
        shutil.copyfile(path, directory / path.name)
        print(directory / path.name)
    print_hint("Grafana: Dashboards → New → Import; Prometheus: rule_files")
