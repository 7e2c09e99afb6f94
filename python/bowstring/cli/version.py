"""`bowstring version`."""

from __future__ import annotations

import platform

from bowstring.cli.options import Json
from bowstring.cli.output import console, print_json


def version(json: Json = False) -> None:
    """Print the version of Bowstring and of what it runs on."""
    from bowstring.clients.wire import software_version

    facts = {
        "bowstring": software_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    if json:
        print_json(facts)
    else:
        console().print(f"bowstring {facts['bowstring']} (Python {facts['python']}, {facts['platform']})")
