"""What the documents hold: blocks of code with their place, commands, links. Reads, never runs."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
ALL = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")])
EXECUTED = [ROOT / "README.md", ROOT / "docs" / "guide.md"]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FRAGMENT = "# fragment"


class Block(NamedTuple):
    """A fenced block. `line` is that of its first line of text in the document."""

    document: Path
    line: int
    language: str
    text: str

    @property
    def is_fragment(self) -> bool:
        return self.text.startswith(_FRAGMENT)

    def compiled(self) -> CodeType:
        """As `python -m asyncio` would take it; a traceback points into the document."""
        code = "\n" * (self.line - 1) + self.text
        return compile(code, str(self.document), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


class Command(NamedTuple):
    """What follows a `$` in a console block."""

    where: str
    words: list[str]


def blocks(document: Path, language: str) -> list[Block]:
    text = document.read_text("utf-8")
    found = (
        Block(document, text.count("\n", 0, match.start()) + 2, match[1], match[2]) for match in _FENCE.finditer(text)
    )
    return [block for block in found if block.language == language]


def commands(document: Path, program: str) -> Iterator[Command]:
    """The calls of a program in the console blocks of a document."""
    for block in blocks(document, "console"):
        for number, line in enumerate(block.text.splitlines(), block.line):
            words = shlex.split(line.removeprefix("$ "), comments=True) if line.startswith("$ ") else []
            if program in words[:1]:
                yield Command(f"{document.name}:{number}", words[1:])


def links(document: Path) -> Iterator[tuple[str, Path]]:
    """Links into this repository, with the file that each one means."""
    for target in _LINK.findall(_FENCE.sub("", document.read_text("utf-8"))):
        if "://" not in target and not target.startswith("#"):
            yield target, document.parent / target.partition("#")[0]
