"""What people type: JSON, @files, PATH=VALUE, points in time."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from onward.core import durations
from onward.core.codec import PLAIN
from onward.errors import InvalidInput


def json_value(text: str, what: str) -> Any:
    """JSON, or @file (@- is stdin) with JSON in it."""
    data = _read(text[1:]) if text.startswith("@") else text.encode("utf-8", "surrogateescape")
    try:
        return PLAIN.decode(data)
    except InvalidInput as error:
        hint = f""", a text needs its quotes: '"{text}"'""" if text.replace("-", "").isalnum() else ""
        raise click.UsageError(f"{what} is no JSON: {str(error).rpartition(': ')[2]}{hint}") from error


def loose_value(text: str) -> Any:
    """JSON if it parses, else the text itself."""
    try:
        return PLAIN.decode(text.encode("utf-8", "surrogateescape"))
    except InvalidInput:
        return text


def pairs(items: Iterable[str], what: str) -> dict[str, str]:
    """NAME=VALUE, repeated."""
    found = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{what} is written NAME=VALUE, got {item!r}")
        found[name] = value
    return found


def moment(text: str | None) -> datetime | str | None:
    """A point in time; a duration means so long ago. What is neither, the client refuses."""
    if text is None:
        return None
    try:
        ago = durations.seconds(text.removesuffix(" ago"))
    except InvalidInput:
        return text
    return datetime.now(UTC) - timedelta(seconds=ago)


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise click.UsageError(f"cannot read {name}: {error.strerror}") from error
