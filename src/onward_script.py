"""Where the `onward` script begins: beside the package, whose import takes long enough to be interrupted."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Imports the command line and runs it. Ctrl-C meanwhile ends the process without a word, as later."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # else it is ignored, as under nohup
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from onward.cli import main as command

    signal.signal(signal.SIGINT, usual)
    command()
