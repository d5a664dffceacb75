"""Drawing on what stdout is: a terminal with colours and Unicode, or a pipe, or a terminal from 1985.

A line is a list of (text, style). Widths are counted in terminal cells, so that names in any script stay aligned.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.cells import cell_len, set_cell_size

Span = tuple[str, str]
Line = list[Span]

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+")
ELLIPSIS = "…"


class Paper:
    """One stream: how wide it is, and what it can show."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self.width = max(40, shutil.get_terminal_size((110, 24)).columns)
        self.coloured = terminal and not os.environ.get("NO_COLOR")
        self.unicode = "utf" in (getattr(self._stream, "encoding", None) or "utf-8").lower()

    def put(self, lines: Iterable[Line]) -> None:
        if self.coloured:
            self._put_coloured(lines)
            return
        for line in lines:
            print(self.plain("".join(text for text, _ in line).rstrip()), file=self._stream)

    def plain(self, text: str) -> str:
        return text if self.unicode else text.replace(ELLIPSIS, "...").replace("·", "-").replace("→", "->")

    def _put_coloured(self, lines: Iterable[Line]) -> None:
        from rich.console import Console
        from rich.text import Text

        console = Console(file=self._stream, highlight=False, width=self.width)
        for line in lines:
            spans = [(self.plain(text), style) for text, style in line]
            console.print(Text.assemble(*spans), soft_wrap=True)


def clean(text: str) -> str:
    """One line, and nothing that could steer a terminal."""
    return _UNPRINTABLE.sub(" ", text).strip()


def cut(text: str, width: int) -> str:
    """At most so many cells."""
    text = clean(text)
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + ELLIPSIS if width > 0 else ""


def fit(text: str, width: int) -> str:
    """Exactly so many cells."""
    return set_cell_size(cut(text, width), width)


def right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def table(heads: Sequence[str], rows: Sequence[Sequence[Span]], width: int) -> list[Line]:
    """Columns as wide as what is in them; the last one takes what is left of the line."""
    last = len(heads) - 1
    widths = [max([cell_len(head), *(cell_len(clean(row[i][0])) for row in rows)]) for i, head in enumerate(heads)]
    widths[last] = max(12, min(widths[last], width - sum(widths[:last]) - 2 * last))
    lines: list[Line] = [[(fit(head, widths[i]) + "  ", "dim") for i, head in enumerate(heads)]]
    for row in rows:
        lines.append([(fit(text, widths[i]) + "  ", style) for i, (text, style) in enumerate(row)])
    return lines
