"""JSON for Postgres's `jsonb`, which cannot hold every JSON that Onward stores.

The stored bytes stay authoritative and are what is read; this text is only ever searched. So it may say things in
another way, as long as a search finds what a search of the original would find: both sides of `@>` are mapped, and
no two values are mapped to one (`test_searchable_json_has_no_nul_and_merges_nothing`).
"""

from __future__ import annotations

import hashlib
import re

_ESCAPE = "\ue000".encode()
_SPECIAL = re.compile(rb"\\(?:u0000|u[eE]000|.)|\xee\x80\x80")
_HUGE = 100_000
_HUGE_NUMBER = re.compile(rb'"(?:[^"\\]++|\\.)*+"|(?<![0-9])-?[0-9]{%d,}' % (_HUGE + 1))


def searchable(data: bytes) -> str:
    """JSON for `jsonb`, which refuses NUL and numbers beyond 131,072 digits; only ever searched, never read.

    Inside strings and keys U+E000 is an escape: NUL becomes U+E000 `0`, and U+E000 itself U+E000 `1`. No two
    strings become one, so `@>` between two mapped values says what it would say of the originals. An integer
    of more than 100,000 digits becomes a string of U+E000, `#` and its SHA-256, which no string is mapped to.
    """
    if b"\\u0000" in data or _ESCAPE in data or b"\\ue000" in data.lower():
        data = _SPECIAL.sub(_escaped, data)
    if len(data) > _HUGE:
        data = _HUGE_NUMBER.sub(_hashed, data)
    return data.decode()


def _escaped(match: re.Match[bytes]) -> bytes:
    found = match[0]
    if found == b"\\u0000":
        return _ESCAPE + b"0"
    return _ESCAPE + b"1" if found == _ESCAPE or found.lower() == b"\\ue000" else found


def _hashed(match: re.Match[bytes]) -> bytes:
    found = match[0]
    if found.startswith(b'"'):
        return found
    return b'"' + _ESCAPE + b"#" + hashlib.sha256(found).hexdigest().encode() + b'"'
