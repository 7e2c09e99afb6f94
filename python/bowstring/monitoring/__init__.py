"""Holds what monitoring systems load: dashboards of Grafana, and alert rules of Prometheus.

Imported by: cli.
May import: nothing.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def monitoring_files() -> list[Path]:
    """Returns the files, by name: `*.json` are dashboards of Grafana, `*.yml` rules of Prometheus."""
    return sorted(path for path in _FOLDER.iterdir() if path.suffix in (".json", ".yml"))
