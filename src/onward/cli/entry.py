"""Running a command: exit code 0 done, 1 failed, 2 wrong use, 130 interrupted; errors are one line on stderr."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

from onward.cli.commands import onward
from onward.errors import InvalidInput, InvalidName, OnwardError
from onward.store.database import BROKEN, REFUSED

_EXPECTED = (OnwardError, OSError, TimeoutError, *BROKEN, REFUSED)
"""What the world may do to a command. Anything else is a mistake of ours, and says so."""


def main() -> None:
    """The `onward` command."""
    _complete_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name in Japanese must not bring down a terminal that has none
            stream.reconfigure(errors="replace")
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _reader_gone()
    except OSError as error:  # a full disk, for instance
        code = _failed(f"cannot write: {error.strerror}", _reader_gone())
    sys.exit(code)


def _complete_streams() -> None:
    """Who was started with a closed stdin, stdout or stderr gets one: else the next file to be opened would be it."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def run(arguments: Sequence[str]) -> int:
    """Executes one command and answers its exit code."""
    try:
        code = onward.main(list(arguments), prog_name="onward", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        return _wrong_use(error)
    except click.ClickException as error:
        return _failed(error.format_message(), 1)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        return _reader_gone()
    except (InvalidInput, InvalidName) as error:  # of what was typed: stored values fit, or are told by other errors
        return _failed(str(error), 2)
    except _EXPECTED as error:
        return _failed("; ".join([str(error) or type(error).__name__, *getattr(error, "__notes__", ())]), 1)
    except Exception as error:
        return _failed(f"{type(error).__name__}: {error} (a mistake in Onward; ONWARD_DEBUG=1 shows where)", 1)
    return code if isinstance(code, int) else 0


def _wrong_use(error: click.UsageError) -> int:
    path = error.ctx.command_path if error.ctx else "onward"
    return _failed(f"{error.format_message().rstrip('.')} (see: {path} --help)", 2)


def _failed(message: str, code: int) -> int:
    if os.environ.get("ONWARD_DEBUG"):
        traceback.print_exc()
    print("onward:", " ".join(message.split()), file=sys.stderr)
    return code


def _reader_gone() -> int:
    """`onward runs list | head`: nobody takes more, and the interpreter must not complain of it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
