"""Lays out tables, so that no word is ever cut.

In a pipe a table is as wide as its cells. On a terminal cells wrap between words. A table whose words do not
fit side by side becomes several, one below the other, that repeat the first column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Cell = str | int | float | None
_BETWEEN = 3
"""Columns of the terminal between two columns of a table."""


def safe(text: str) -> str:
    """Returns text, of several lines perhaps, without what could move a terminal's cursor: what others wrote,
    such as names of clients and groups, may be in it.
    """
    if text.isprintable():
        return text
    from bowstring.protocol.printable_text import printable_lines  # rare, and not light

    return printable_lines(text)


class FittedTable:
    """A table for a console of any width; numbers are right-aligned, None is a dash.

    Args:
        columns: Headers.
        rows: Cells of each row.
    """

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        self._columns = list(columns)
        self._rows = [list(row) for row in rows]
        self._texts = [[_text(cell) for cell in row] for row in self._rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Renders one table or several."""
        of_column = [
            "\n".join([name, *(row[index].plain for row in self._texts)])
            for index, name in enumerate(self._columns)
        ]
        whole = [max(map(cell_len, text.splitlines())) for text in of_column]
        words = [max(map(cell_len, text.split()), default=0) for text in of_column]
        width = options.max_width if console.file.isatty() else None
        for number, widths in enumerate(fitted(whole, words, width)):
            if number:
                yield ""
            yield self._table(widths)

    def _table(self, widths: dict[int, int]) -> Table:
        made = Table(
            box=box.SIMPLE_HEAD,
            header_style="bold cyan",
            pad_edge=False,
            show_edge=False,
            width=sum(widths.values()) + _BETWEEN * (len(widths) - 1),
        )
        for index, width in widths.items():
            numbers = any(isinstance(row[index], int | float) for row in self._rows)
            made.add_column(self._columns[index], justify="right" if numbers else "left", width=width)
        for row in self._texts:
            made.add_row(*(row[index] for index in widths))
        return made


def fitted(whole: Sequence[int], words: Sequence[int], width: int | None) -> Iterator[dict[int, int]]:
    """Yields the widths of columns by their number, for each table that is printed.

    Args:
        whole: Widths of columns that wrap nothing.
        words: Widths of the longest words of columns.
        width: Of the terminal; None for no bound.
    """
    if width is None or not whole:
        yield dict(enumerate(whole))
        return
    if sum(words) + _BETWEEN * (len(words) - 1) <= width:
        yield _shared(dict(enumerate(whole)), words, width)
        return
    # Cells that are whole are easier to read than fewer tables.
    group = {0: whole[0]}
    for index in range(1, len(whole)):
        if len(group) > 1 and sum(group.values()) + whole[index] + _BETWEEN * len(group) > width:
            yield _shared(group, words, width)
            group = {0: whole[0]}
        group[index] = whole[index]
    yield _shared(group, words, width)


def _shared(whole: dict[int, int], words: Sequence[int], width: int) -> dict[int, int]:
    """Shrinks the widest columns until all fit, but none below its longest word."""
    widths = dict(whole)
    excess = sum(widths.values()) + _BETWEEN * (len(widths) - 1) - width
    while excess > 0:
        loose = [index for index in widths if widths[index] > words[index]]
        if not loose:
            break  # a word that is wider than the terminal
        widths[max(loose, key=lambda index: widths[index])] -= 1
        excess -= 1
    return widths


def _text(value: Cell) -> Text:
    if value is None:
        return Text("–", style="dim")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, float):
        return Text(f"{value:,.1f}")
    return Text(safe(value))
