"""Run ids: UUIDs of version 7, made without a clock and without chance.

Both come from the caller, so what is decided here can be decided again. A child run's id is derived from the
run and the step that starts it: a replay, and a second worker after a crash, ask for the same id, and so find
the child that is there instead of starting another. It keeps its parent's time stamp, so the runs of one tree
lie side by side in the primary key.
"""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

from onward.errors import NotFound

_FORM = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-fA-F]{32}")


def uuid7(unix_ms: int, entropy: bytes) -> UUID:
    """The UUID of version 7 of a moment and ten bytes of entropy, of which 74 bits are used."""
    if not 0 <= unix_ms < 1 << 48:
        raise ValueError(f"not a time stamp in milliseconds: {unix_ms}")
    if len(entropy) != 10:
        raise ValueError(f"ten bytes of entropy are needed, got {len(entropy)}")
    noise = int.from_bytes(entropy, "big")
    head = unix_ms << 80 | 0x7 << 76 | (noise >> 62 & 0xFFF) << 64
    return UUID(int=head | 0b10 << 62 | noise & (1 << 62) - 1)


def derive(run_id: UUID, path: str, salt: str = "") -> UUID:
    """The id that belongs to a step of a run: the same at every replay, another for every step and salt."""
    # The length keeps ("ab", "c") and ("a", "bc") apart.
    text = salt.encode()
    digest = hashlib.sha256(run_id.bytes + len(text).to_bytes(8, "big") + text + path.encode()).digest()
    return uuid7(run_id.int >> 80, digest[:10])


def parse(text: str | UUID) -> UUID:
    """The run id that was written; whatever is no UUID names no run."""
    if isinstance(text, UUID):
        return text
    if isinstance(text, str) and _FORM.fullmatch(text):
        return UUID(text)
    shown = repr(text)
    raise NotFound(
        f"no run {shown if len(shown) <= 80 else shown[:77] + '...'}: "
        "a run id is a UUID such as 01890a5d-ac96-774b-bcce-b302099a8057"
    )
