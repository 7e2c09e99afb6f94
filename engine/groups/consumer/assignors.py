"""Lists the assignors of the coordinator by name."""

from typing import Final

from bowstring.engine.groups.consumer import range_assignor, uniform_assignor
from bowstring.engine.groups.modern.assignor import Assignor

ASSIGNORS: Final[dict[str, Assignor]] = {
    uniform_assignor.NAME: uniform_assignor.assign,
    range_assignor.NAME: range_assignor.assign,
}
"""To add an assignor, add a row."""
