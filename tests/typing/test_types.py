"""Law: what users write is checked in their editor: a step has its function's type, a wrong argument is an error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def complaints(name: str, tmp_path: Path) -> dict[int, str]:
    """mypy's errors by line."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={tmp_path}"]
    done = subprocess.run(
        [*command, str(HERE / name)], capture_output=True, text=True, check=False, cwd=HERE.parents[1]
    )
    found = re.findall(rf"^\S*{name}:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert found or done.returncode == 0, done.stdout + done.stderr
    return {int(line): text for line, text in found}


def test_typed_workflows_pass_and_their_types_are_known(tmp_path: Path) -> None:
    assert complaints("good.py", tmp_path) == {}


def test_a_wrong_step_argument_is_an_error_on_its_line(tmp_path: Path) -> None:
    marked = {n for n, text in enumerate((HERE / "bad.py").read_text().splitlines(), 1) if "# error" in text}
    assert set(complaints("bad.py", tmp_path)) == marked
