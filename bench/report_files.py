"""Writes reports for perf_reports/: Git keeps text and compact JSON; pictures stay where the bench ran."""

import json
from typing import Any


def compact(data: Any) -> str:
    """Returns a report's JSON: one line, since nothing but programs reads it."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False) + "\n"


def picture(title: str, file_name: str) -> str:
    """Returns a report's line about a picture."""
    return f"Picture: {title} (`{file_name}`, drawn beside this file and not kept)."
