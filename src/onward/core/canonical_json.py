"""One text for each input: what decides whether a second start asks for the same as the first.

Keys are sorted, because a dict's order is an accident of the client that wrote it. Numbers stay as they are, 1 and 1.0
apart: a body tells them apart too, so they are different inputs.
"""

from __future__ import annotations

import msgspec

from onward.core.plain import PLAIN
from onward.core.plain_writer import Writer

_in_order = msgspec.json.Encoder(order="sorted").encode


def canonical(data: bytes) -> bytes:
    """The same JSON with its keys sorted by code point, numbers as they are: equal for equal inputs."""
    value = PLAIN.decode(data)
    try:
        return _in_order(value)
    except (ValueError, RecursionError):
        return Writer("JSON", in_order=True).write(value)
