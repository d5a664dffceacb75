"""Where a payload store is: what `ONWARD_PAYLOAD_URL` may say."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from onward.errors import InvalidInput
from onward.payloads import layout

_ALLOWED = "file:///folder, s3://bucket, gs://bucket or az://container, each with a prefix where you like"
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{1,221}")


class Bucket(NamedTuple):
    """A bucket, or the part of it below a prefix."""

    scheme: str
    name: str
    prefix: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.name}/{self.prefix}".rstrip("/")

    def key(self, key: str) -> str:
        """What a key of the store is called in the bucket."""
        return f"{self.prefix}/{key}" if self.prefix else key


def parse(url: str) -> Bucket | Path:
    """A bucket or a folder. What is wrong with an address is told without it: it may hold a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _refusal("this is no address") from None
    if parts.query or parts.fragment:
        raise _refusal("an address of a payload store has no `?` and no `#`: write %3F and %23 in a folder's name")
    if "@" in parts.netloc or ":" in parts.netloc:
        raise _refusal(
            "an address of a payload store holds no user, password or port: those are taken from AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL and the like"
        )
    if parts.scheme == "file":
        return _folder(parts)
    if parts.scheme in ("s3", "gs", "az"):
        return _bucket(parts)
    raise _refusal(f"payloads cannot be kept at {parts.scheme[:20]!r}" if parts.scheme else "this is no address")


def _folder(parts: SplitResult) -> Path:
    path = os.path.normpath(unquote(parts.path))
    if parts.netloc not in ("", "localhost") or not path.strip("/") or not path.startswith("/") or "\0" in path:
        raise _refusal("a folder's address has three slashes and its whole path, such as file:///var/lib/onward")
    return Path(path)


def _bucket(parts: SplitResult) -> Bucket:
    if not _BUCKET.fullmatch(parts.netloc):
        raise _refusal(f"{parts.netloc[:80]!r} is no name of a bucket")
    prefix = parts.path.strip("/")
    return Bucket(
        parts.scheme,
        parts.netloc,
        layout.plain(prefix, f"ONWARD_PAYLOAD_URL is {_ALLOWED}; a prefix") if prefix else "",
    )


def _refusal(what: str) -> InvalidInput:
    return InvalidInput(f"ONWARD_PAYLOAD_URL: {what}. It may be {_ALLOWED}")
