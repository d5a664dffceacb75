"""The Standard Webhooks scheme: what a secret looks like, and how a message is signed with it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from onward.errors import InvalidInput

_PREFIX = "whsec_"


def secret_of(key: bytes) -> str:
    """The secret with this key, of 24 to 64 bytes."""
    return _PREFIX + base64.b64encode(key).decode()


def checked_secret(secret: str) -> str:
    """The secret, if it is one."""
    _key(secret)
    return secret


def signature(secret: str, webhook_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`."""
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(_key(secret), signed, hashlib.sha256).digest()).decode()


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError, AttributeError):
        key = b""
    if not isinstance(secret, str) or not secret.startswith(_PREFIX) or not 24 <= len(key) <= 64:
        raise InvalidInput("a webhook's secret is whsec_ and 24 to 64 bytes in base64; leave it out to have one made")
    return key
