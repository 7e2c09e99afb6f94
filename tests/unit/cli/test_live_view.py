"""The frame of `top` commands: a cluster that stops to answer does not end them."""

import contextlib
import json

import pytest
from rich.text import Text

from bowstring.cli import live_view
from bowstring.cli.live_view import LiveOptions, LiveView, show_live
from bowstring.clients.errors import ClientError


class Looks(LiveView):
    """Looks have the given outcomes, one after the other."""

    def __init__(self, *outcomes):
        self._outcomes = iter(outcomes)

    def look(self, admin):
        outcome = next(self._outcomes)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def measure(self, before, now, count):
        return [before, now, count]

    def json(self, measured):
        return measured

    def parts(self, measured):
        return Text(f"table {measured}")


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    """Looks have no use for a client, whose settings another command of this process may have read."""
    monkeypatch.setattr(live_view, "admin_at", lambda *_: contextlib.nullcontext())


def options(**changed):
    return LiveOptions(interval=0.0, bootstrap="127.0.0.1:1", **changed)


def test_the_last_table_stays_while_the_cluster_does_not_answer(capsys):
    view = Looks(1, 2, ClientError("gone \x1b[2J"), 3, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        show_live(view, options())
    shown = capsys.readouterr().out
    assert shown.count("table [1, 2, 20]") == 2 and "table [2, 3, 20]" in shown
    assert "no answer: gone" in shown and "\x1b[2J" not in shown


def test_programs_get_the_error_as_json(capsys):
    with pytest.raises(KeyboardInterrupt):
        show_live(Looks(1, 2, ClientError("gone"), KeyboardInterrupt()), options(json=True))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [[1, 2, 20], {"error": "gone"}]


@pytest.mark.parametrize("outcomes", [(ClientError("gone"),), (1, ClientError("gone"))])
def test_a_first_look_that_fails_ends_the_command(outcomes):
    with pytest.raises(ClientError, match="gone"):
        show_live(Looks(*outcomes), options())
