"""Draws small plots as SVG; colours come from console.css, light and dark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup, escape

from bowstring.console.values_text import count_text

WIDTH, HEIGHT = 480, 132
_LEFT, _RIGHT, _TOP, _BOTTOM = 4, 4, 18, 16
LINES_MAX = 6
"""Classes plot-0 to plot-5 of console.css."""

Point = tuple[float, float | None]


def line_plot(
    series: Mapping[str, Sequence[Point]],
    *,
    label: str,
    text: Callable[[float], str] = count_text,
    width: int = WIDTH,
    height: int = HEIGHT,
) -> Markup:
    """Returns lines over time from zero to the highest value.

    Args:
        series: points by the name of the line: seconds, and a value or None for a gap. At most six lines.
        label: what is plotted, for the caption and for screen readers.
        text: writes a value.
        width, height: units of the drawing, which fills the width of its element.
    """
    lines = dict(list(series.items())[:LINES_MAX])
    points = [point for line in lines.values() for point in line]
    values = [value for _, value in points if value is not None]
    begin, end = min((at for at, _ in points), default=0.0), max((at for at, _ in points), default=0.0)
    top = max(values, default=0.0) or 1.0
    across = width - _LEFT - _RIGHT
    down = height - _TOP - _BOTTOM

    def place(at: float, value: float) -> str:
        x = _LEFT + (across * (at - begin) / (end - begin) if end > begin else 0)
        return f"{x:.1f},{_TOP + down * (1 - max(0.0, value) / top):.1f}"

    latest = ", ".join(
        f"{name} {text(value) if value is not None else 'unknown'}"
        for name, line in lines.items()
        for value in [line[-1][1] if line else None]
    )
    parts = [
        f'<svg class="plot" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(f"{label}: now {latest}; highest {text(max(values, default=0.0))}")}">',
        f'<line class="plot-base" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{_TOP + down}" y2="{_TOP + down}"/>',
        f'<line class="plot-top" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{_TOP}" y2="{_TOP}"/>',
        f'<text class="plot-text" x="{_LEFT}" y="{_TOP - 6}">{escape(text(max(values, default=0.0)))}</text>',
    ]
    for number, line in enumerate(lines.values()):
        for run in _runs(line):
            coordinates = " ".join(place(at, value) for at, value in run)
            parts.append(f'<polyline class="plot-line plot-{number}" points="{coordinates}"/>')
    if end > begin:
        ago = _span_text(end - begin)
        parts.append(f'<text class="plot-text" x="{_LEFT}" y="{height - 3}">{ago} ago</text>')
        parts.append(
            f'<text class="plot-text" x="{width - _RIGHT}" y="{height - 3}" text-anchor="end">now</text>'
        )
    parts.append("</svg>")
    if len(lines) > 1:
        keys = "".join(
            f'<li><span class="plot-key plot-{number}"></span>{escape(name)}</li>'
            for number, name in enumerate(lines)
        )
        parts.append(f'<ul class="plot-keys" aria-hidden="true">{keys}</ul>')
    return Markup("".join(parts))


def _runs(line: Sequence[Point]) -> list[list[tuple[float, float]]]:
    """Cuts a line at its gaps; a point alone becomes a short line that is seen."""
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in line:
        if value is None:
            runs.append([])
        else:
            runs[-1].append((at, value))
    return [run if len(run) > 1 else run * 2 for run in runs if run]


def _span_text(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def bar(value: float, total: float, label: str) -> Markup:
    """Returns a bar that shows a share of a total; `label` is for screen readers."""
    share = min(1.0, max(0.0, value / total)) if total > 0 else 0.0
    return Markup(
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}"><rect class="bar-all" width="100" height="8"/>'
        f'<rect class="bar-part" width="{100 * share:.1f}" height="8"/></svg>'
    )
