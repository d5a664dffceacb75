"""The command line: the top layer, and the only one that wires everything.

`entry` runs a command and turns what goes wrong into one line; `commands` is the list of them; each other file is
one command, or one thing that several share (`options`, `arguments`, `forms`, `times`, `paper`).
"""

from onward.cli.entry import main, run

__all__ = ["main", "run"]
