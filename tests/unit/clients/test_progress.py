"""The bar of long reads and writes."""

import io
import sys

import pytest

from bowstring.clients import progress
from bowstring.clients.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stderr", "shown"), [(Terminal(), True), (io.StringIO(), False), (None, False)])
def test_a_bar_is_for_terminals(monkeypatch, stderr, shown):
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    with Progress("read t", 10) as bar:
        assert bar.is_due == shown
        bar.reach(3)
    assert stderr is None or ("read t" in stderr.getvalue()) == shown


def test_there_is_no_bar_without_rich(monkeypatch):
    """bowstring-client does not bring it; the read goes on."""
    stderr = Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with Progress("read t", 10, True) as bar:
        bar.reach(3)
        assert not bar.is_due
    assert stderr.getvalue() == ""


def test_short_work_and_denied_bars_show_nothing(monkeypatch):
    stderr = Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    for shown in (None, False):
        with Progress("read t", 10, shown) as bar:
            bar.reach(10)
    assert stderr.getvalue() == ""
