"""Shows a view of a cluster again and again: the frame of the `top` commands."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from bowstring.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT_S, Bootstrap, Json, Timeout, admin_at
from bowstring.cli.output import console, print_json, print_parts
from bowstring.cli.tables import safe
from bowstring.clients.errors import ClientError

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin


class LiveOptions(NamedTuple):
    """Options of commands that show something again and again."""

    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.2, help="Seconds between two tables.")
    ] = 1.0
    rows: Annotated[int, typer.Option("-n", "--count", min=1, help="Show this many rows.")] = 20
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT
    timeout: Timeout = TIMEOUT_DEFAULT_S
    json: Json = False


LIVE = LiveOptions()


class LiveView(ABC):
    """What a `top` command shows.

    Attributes:
        has_rates: whether the first table needs two looks.
    """

    has_rates = False

    @abstractmethod
    def look(self, admin: Admin) -> Any:
        """Returns what there is now."""

    @abstractmethod
    def measure(self, before: Any, now: Any, count: int) -> Any:
        """Returns what is shown, for `parts`, from two looks.

        Args:
            before: the look before; the same as `now` at the first of a view without rates.
            now: the newest look.
            count: how many rows there may be.
        """

    @abstractmethod
    def json(self, measured: Any) -> Any:
        """Returns what is measured as JSON values."""

    @abstractmethod
    def parts(self, measured: Any) -> RenderableType:
        """Returns what is measured for people."""


def show_live(view: LiveView, options: LiveOptions) -> None:
    """Shows a view until the user ends it, or once.

    A cluster that does not answer ends the first look with its error; later the last table stays, with the
    error under it.

    Args:
        view: what is shown.
        options: how, and of which cluster.

    Raises:
        ClientError: the first look failed, or the only one.
    """
    with admin_at(options.bootstrap, options.timeout) as admin, _shown(view, options) as show:
        before = view.look(admin)
        if view.has_rates:
            time.sleep(options.interval)
        measured: Any = None
        while True:
            trouble = ""
            began_s = time.monotonic()
            try:
                now = view.look(admin)
                measured, before = view.measure(before, now, options.rows), now
            except ClientError as error:
                if options.once or measured is None:
                    raise
                trouble = str(error)
            show(measured, trouble)
            if options.once:
                return
            time.sleep(max(0.0, options.interval - (time.monotonic() - began_s)))


@contextmanager
def _shown(view: LiveView, options: LiveOptions) -> Iterator[Callable[[Any, str], None]]:
    """Returns what shows measured values: on a terminal in place, on its second screen."""
    if options.json:
        yield lambda measured, trouble: print_json(view.json(measured) if not trouble else {"error": trouble})
        return
    if options.once or not console().is_terminal:
        yield lambda measured, trouble: print_parts(_parts(view, measured, trouble))
        return
    from rich.live import Live

    with Live(console=console(), screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        yield lambda measured, trouble: live.update(_parts(view, measured, trouble), refresh=True)


def _parts(view: LiveView, measured: Any, trouble: str) -> RenderableType:
    parts = view.parts(measured)
    return Group(Text(f"no answer: {safe(trouble)}", "bold red"), parts) if trouble else parts
