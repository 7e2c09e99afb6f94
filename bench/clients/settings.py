"""Holds settings of a client by its own names."""

from __future__ import annotations

Settings = dict[str, str | int | float | bool]


def told(settings: Settings) -> str:
    """Formats the settings for reports."""
    return ", ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
        for name, value in settings.items()
    )
