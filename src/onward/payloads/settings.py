"""What the environment says of payloads, checked once at the edge and passed down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from onward.errors import InvalidInput
from onward.payloads import address

INLINE = 1 << 20
"""Bytes of a value that the database takes where no store is configured."""


@dataclass(frozen=True)
class Settings:
    """`url` and `root` None: as the database says. `most`: bytes of a value. `everything`: small inputs and outputs are
    written to the store too, beside the row that stays the record."""

    url: str | None = None
    root: str | None = None
    threshold: int = 65_536
    most: int = 256 << 20
    everything: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        settings = cls(
            url=environment.get("ONWARD_PAYLOAD_URL") or None,
            root=environment.get("ONWARD_PAYLOAD_ROOT_PREFIX") or None,
            threshold=_bytes(environment, "ONWARD_PAYLOAD_THRESHOLD", cls.threshold),
            most=_bytes(environment, "ONWARD_PAYLOAD_MAX", cls.most),
            everything=_everything(environment.get("ONWARD_PAYLOAD_PERSIST") or ""),
        )
        if settings.url is not None:
            address.parse(settings.url)  # before it is recorded: what is recorded counts for everybody, and for good
        if settings.threshold > INLINE:
            raise InvalidInput(f"ONWARD_PAYLOAD_THRESHOLD is at most {INLINE} bytes, got {settings.threshold}")
        if settings.most < settings.threshold:
            raise InvalidInput("ONWARD_PAYLOAD_MAX must not be below ONWARD_PAYLOAD_THRESHOLD")
        return settings


def _bytes(environment: Mapping[str, str], name: str, default: int) -> int:
    given = environment.get(name)
    if not given:
        return default
    if not given.isascii() or not given.isdecimal():
        raise InvalidInput(f"{name} is a number of bytes, such as {default}; got {given!r}")
    return int(given)


def _everything(given: str) -> bool:
    if given not in ("", "large", "all"):
        raise InvalidInput(f"ONWARD_PAYLOAD_PERSIST is `large` (the default) or `all`, got {given!r}")
    return given == "all"
