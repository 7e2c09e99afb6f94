"""Handlers state the parts that they use: each exists where they answer, with the type that they name."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from bowstring.engine.api.table import BY_BROKER, BY_CONTROLLER
from bowstring.engine.broker.broker import Broker
from bowstring.engine.broker.controller_node import ControllerServer
from bowstring.engine.broker.coordination import PARTS, Coordination
from bowstring.engine.requests.binding import stated
from bowstring.engine.storage.disk_reads import DiskReads

ENGINE = Path(__file__).parents[3] / "engine"
POSITIONAL = {"handle": (("request",), ("_request",)), "at_once": (("body", "message", "listener"),)}
# Which classes have the parts of the handlers that answer on listeners of a kind.
SERVED = {
    "a broker": (BY_BROKER, (Broker, Coordination)),
    "a controller": (BY_CONTROLLER, (ControllerServer,)),
}


def alternatives(annotation):
    """Returns the names of the types of an annotation, without their modules."""
    if isinstance(annotation, type) and not getattr(annotation, "__args__", ()):
        return {annotation.__name__}
    text = annotation if isinstance(annotation, str) else str(annotation)
    return {part.strip() for part in re.sub(r"\b(?:\w+\.)+(?=\w)", "", text).split("|")}


def fits(annotation):
    """Returns the names of the types that a part of an annotation has, with those of its base classes."""
    if isinstance(annotation, type) and not getattr(annotation, "__args__", ()):
        return {each.__name__ for each in annotation.__mro__}
    return alternatives(annotation)


def declared(owner):
    """Returns what a class declares as its attributes: names, and annotations of those and of properties."""
    found = dict(owner.__annotations__)
    for name, value in vars(owner).items():
        if isinstance(value, property):
            found[name] = value.fget.__annotations__["return"]
    return found


def functions(modules):
    for name in sorted(modules):
        module = import_module(f"bowstring.engine.api.{name}")
        for kind in POSITIONAL:
            if hasattr(module, kind):
                yield name, kind, getattr(module, kind)


def check(parts, modules):
    wrong = []
    for name, kind, function in functions(modules):
        code = function.__code__
        if code.co_varnames[: code.co_argcount] not in POSITIONAL[kind]:
            wrong.append(f"{name}.{kind} takes {code.co_varnames[: code.co_argcount]}")
        if function.__kwdefaults__ or function.__defaults__:
            wrong.append(f"{name}.{kind} has defaults, which are never used")
        for part in stated(function):
            wanted = function.__annotations__.get(part)
            if part not in parts:
                wrong.append(f"{name}.{kind} states {part}, which is no part")
            elif not alternatives(wanted) & fits(parts[part]):
                wrong.append(f"{name}.{kind} states {part}: {wanted}, which is {parts[part]}")
            elif "None" in alternatives(parts[part]) - alternatives(wanted):
                wrong.append(f"{name}.{kind} states {part}: {wanted}, which may be None")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", SERVED)
def test_each_stated_part_exists_with_its_type(kind):
    served, owners = SERVED[kind]
    parts = {name: annotation for owner in owners for name, annotation in declared(owner).items()}
    check(parts, set(served.handlers.values()))


def test_a_wrong_statement_is_found(monkeypatch):
    async def handle(request, *, logs: DiskReads, nothing: int):
        """States a part with a wrong type, and one that does not exist."""

    monkeypatch.setattr("bowstring.engine.api.heartbeat.handle", handle)
    with pytest.raises(AssertionError, match=r"states logs(?s:.*)nothing, which is no part"):
        check(declared(Broker) | declared(Coordination), {"heartbeat"})


def test_the_parts_of_coordination_are_its_own():
    assert declared(Coordination).keys() == PARTS


def test_only_its_package_sees_a_broker_as_a_whole():
    """Who starts a node imports it; what a node consists of gets the parts that it uses."""
    roots = re.compile(r"bowstring\.engine\.broker(\.(broker|controller_node|coordination))? import")
    starters = {"broker", "migration"}
    wrong = [
        str(path.relative_to(ENGINE))
        for path in ENGINE.rglob("*.py")
        if path.relative_to(ENGINE).parts[0] not in starters and roots.search(path.read_text())
    ]
    assert not wrong
