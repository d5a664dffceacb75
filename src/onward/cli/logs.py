"""What a long-lived command writes to stderr: lines for people, or a JSON object a line, for programs.

Records of Onward's own, and of `ctx.log`, carry `run_id`, `workflow` and `step` where they are about one. What runs
work with is never in a record of Onward's.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

T = TypeVar("T")

_TEXT = "%(asctime)s %(levelname)s %(message)s"
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class Json(logging.Formatter):
    """One record: time, level, logger, message, whatever it carries, and the exception."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {name: value for name, value in vars(record).items() if name not in _USUAL and name not in told}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            told["stack"] = self.formatStack(record.stack_info)
        return json.dumps(told, ensure_ascii=False, default=str)


def formatted(command: Callable[..., T]) -> Callable[..., T]:
    """Gives the command --log-format."""
    return click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How log lines are written to stderr; json: an object a line.",
    )(command)


def write(log_format: str, level: int = logging.INFO) -> None:
    """Logs of this process go to stderr from here on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler])
