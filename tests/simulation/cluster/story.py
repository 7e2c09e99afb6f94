"""Prints a cluster's run, step by step."""

from bowstring.protocol.schema import Struct
from tests.simulation.quorum import story

QUIET = {"gets", "answers"}


def brief(what):
    """Describes an object in a few words."""
    if isinstance(what, Struct):
        parts = []
        for name in what.__slots__:
            value = getattr(what, name)
            if value not in (None, "", b"", [], -1, -2) and not isinstance(value, bytes):
                parts.append(f"{name}={value}")
        return f"{type(what).__name__} {' '.join(parts)}"
    return story.brief(what)


def lines(world, last=80):
    """The last steps of a run, without the messages between the quorum's replicas."""
    out = []
    for time, node, words, what in world.story:
        if words in QUIET or words.startswith(("gets from", "sends to")):
            continue
        who = "" if node is None else f"node {node} "
        out.append(f"{time:10.1f}  {who}{words} {brief(what)}")
    return out[-last:]
