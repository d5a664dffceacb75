"""Integers of any size to decimal digits and back, past `sys.get_int_max_str_digits()`.

The guard is there because str() and int() take time that grows with the square of the length, and so do
Decimal(int) and int(Decimal): half a minute for a million digits. Halving the number first, and multiplying the
halves, does not (`test_integers_of_a_million_digits_do_not_take_minutes`); so the guard can be done without. It
stays as it is set, for it belongs to the whole process and so to the user.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

import msgspec

_encode = msgspec.json.Encoder().encode

_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
_EASY = 600  # digits or bits that any setting of the guard lets pass


def digits(value: int) -> bytes:
    """The decimal digits of an integer, after its sign."""
    try:
        return _encode(int.__add__(value, 0))
    except ValueError:
        sign = "-" if value < 0 else ""
        return f"{sign}{_decimal(abs(value), value.bit_length()):f}".encode()


def _decimal(value: int, bits: int) -> Decimal:
    if bits <= _EASY:
        return Decimal(value)
    low = bits // 2
    upper = _EXACT.multiply(_decimal(value >> low, bits - low), _EXACT.power(Decimal(2), Decimal(low)))
    return _EXACT.add(upper, _decimal(value & (1 << low) - 1, low))


def integer(text: str) -> int:
    """The integer that decimal digits stand for."""
    if len(text) <= _EASY:
        return int(text)
    low = len(text) // 2
    shift: int = 10**low
    return integer(text[:-low]) * shift + integer(text[-low:])
