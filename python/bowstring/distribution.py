"""Names the installed distribution: `bowstring`, which is everything, or `bowstring-client`, the clients.

Both bring the files of the clients, so an environment may have one of them only.
"""

from __future__ import annotations

import os
from typing import Final

_FOLDER: Final = os.path.dirname(__file__)
IS_CLIENT_ONLY: Final = os.path.exists(os.path.join(_FOLDER, "client_only.txt"))
"""The file comes with `bowstring-client`."""
_HAS_BROKER: Final = os.path.exists(os.path.join(_FOLDER, "serve.py"))


def refuse_two_distributions() -> None:
    """Refuses an environment where the files of one distribution lie over those of the other.

    Raises:
        ImportError: Both are installed.
    """
    if IS_CLIENT_ONLY and _HAS_BROKER:
        raise ImportError(
            f"bowstring and bowstring-client are both in {os.path.dirname(_FOLDER)}, and share files: "
            "pip uninstall --yes bowstring bowstring-client, then install one of them"
        )


def install_command(extra: str) -> str:
    """Returns the command that installs an extra of the installed distribution."""
    return f"pip install '{'bowstring-client' if IS_CLIENT_ONLY else 'bowstring'}[{extra}]'"


def not_in_client(what: str) -> str:
    """Returns what to say when a part of `bowstring` is used and only the clients are installed."""
    return (
        f"{what} is not in bowstring-client, which has the clients only: pip uninstall --yes "
        "bowstring-client, then pip install bowstring"
    )
