"""Draws flame graphs as SVG: a box for each call, as wide as its share of the samples, above its caller's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from bench.flame.stacks import Frame, Stack, counted

WIDTH = 1200
ROW = 17
MARGIN = 10
HEAD = 44
CHARACTER = 6.9
# Narrower boxes are left out and counted with their caller.
LEAST_SHARE = 0.003
COLOURS = {
    "all": "#d9d9d9",
    "thread": "#cfcfcf",
    "kernel": "#f2a25c",
    "native": "#7db3e8",
    "python": "#f3d667",
    "library": "#a9d18e",
}
LEGEND = {
    "kernel": "kernel",
    "native": "Bowstring's native code",
    "python": "the Python interpreter",
    "library": "libraries",
}


@dataclass
class Box:
    """A call and what it called."""

    frame: Frame
    samples: int = 0
    calls: dict[Frame, Box] = field(default_factory=dict)


def tree(stacks: Mapping[Stack, int], name: str) -> Box:
    """Merges the stacks from their outermost calls on."""
    root = Box(Frame(name, "all"))
    for stack, samples in stacks.items():
        box = root
        box.samples += samples
        for frame in stack:
            box = box.calls.setdefault(frame, Box(frame))
            box.samples += samples
    return root


def draw(stacks: Mapping[Stack, int], title: str, name: str) -> str:
    """Returns an SVG; every box shows its full name and share on hover."""
    total = counted(stacks)
    root = tree(stacks, name)
    rows = _depth(root, total)
    height = HEAD + rows * ROW + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="Verdana, DejaVu Sans, sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{MARGIN}" y="17" font-size="13">{escape(title)}</text>',
        *_legend(),
    ]
    _boxes(root, MARGIN, HEAD + (rows - 1) * ROW, (WIDTH - 2 * MARGIN) / max(total, 1), total, parts)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend() -> list[str]:
    parts, x = [], float(MARGIN)
    for kind, words in LEGEND.items():
        parts.append(f'<rect x="{x:.0f}" y="25" width="11" height="11" fill="{COLOURS[kind]}"/>')
        parts.append(f'<text x="{x + 15:.0f}" y="35">{escape(words)}</text>')
        x += 30 + CHARACTER * len(words)
    return parts


def _shown(box: Box, total: int) -> list[Box]:
    found = [each for each in box.calls.values() if each.samples >= LEAST_SHARE * total]
    return sorted(found, key=lambda each: each.frame.name)


def _depth(box: Box, total: int) -> int:
    return 1 + max((_depth(each, total) for each in _shown(box, total)), default=0)


def _boxes(box: Box, x: float, y: float, scale: float, total: int, parts: list[str]) -> None:
    width = box.samples * scale
    share = 100 * box.samples / max(total, 1)
    name = box.frame.name
    room = int((width - 6) / CHARACTER)
    shown = name if len(name) <= room else name[: room - 1] + "…" if room >= 4 else ""
    text = f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(shown)}</text>' if shown else ""
    parts.append(
        f'<g><title>{escape(name)}: {share:.1f} %</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
        f'height="{ROW - 1}" fill="{COLOURS[box.frame.kind]}" rx="1"/>{text}</g>'
    )
    for each in _shown(box, total):
        _boxes(each, x, y - ROW, scale, total, parts)
        x += each.samples * scale
