"""Errors on their way over HTTP and back: one table, so that a client raises what its server met.

The type of a problem is a relative URI that never changes, `/errors/conflict`. What has no line here, a mistake of ours
above all, goes out as `/errors/internal` and tells nothing of the inside.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from onward import errors
from onward.client.wire import Problem
from onward.errors import OnwardError
from onward.payloads.trouble import StoreUnavailable

PREFIX = "/errors/"


class Kind(NamedTuple):
    """A type of problem. `error`: what a client raises for it."""

    name: str
    status: int
    title: str
    error: type[OnwardError] = OnwardError


KINDS = {
    kind.name: kind
    for kind in (
        Kind("malformed", 400, "The body is no JSON", errors.InvalidInput),
        Kind("unauthorized", 401, "Who asks is not known", errors.Unauthorized),
        Kind("forbidden", 403, "This is not allowed", errors.Forbidden),
        Kind("not-found", 404, "There is no such thing", errors.NotFound),
        Kind("no-route", 404, "There is no such route"),
        Kind("method-not-allowed", 405, "This route has no such method"),
        Kind("too-slow", 408, "The body did not come in time"),
        Kind("conflict", 409, "This contradicts what is there", errors.Conflict),
        Kind("body-too-large", 413, "The body is too large", errors.PayloadTooLarge),
        Kind("payload-too-large", 413, "A value is too large", errors.PayloadTooLarge),
        Kind("unsupported-media-type", 415, "The body must be JSON", errors.InvalidInput),
        Kind("invalid-name", 422, "A name breaks the rules", errors.InvalidName),
        Kind("invalid-input", 422, "The request does not fit", errors.InvalidInput),
        Kind("missing-metadata", 422, "A payload must be an envelope", errors.MissingMetadata),
        Kind("unknown-envelope-version", 422, "A newer Onward wrote this envelope", errors.UnknownEnvelopeVersion),
        Kind("internal", 500, "A mistake in Onward"),
        Kind("payload-missing", 404, "A payload is not in its store", errors.PayloadMissing),
        Kind("payload-corrupt", 409, "A payload is not what its pointer says", errors.PayloadCorrupt),
        Kind("unavailable", 503, "The server stops, or has too much to do"),
        Kind("database-unavailable", 503, "The database cannot be reached", errors.DatabaseUnavailable),
        Kind("schema-mismatch", 503, "The database has another schema", errors.SchemaMismatch),
        Kind("payload-store-unavailable", 503, "The payload store cannot be used", StoreUnavailable),
        Kind("payload-store-not-configured", 503, "There is no payload store", errors.PayloadStoreNotConfigured),
    )
}

_OF: dict[type[BaseException], Kind] = {
    kind.error: kind
    for kind in KINDS.values()
    if kind.error is not OnwardError and kind.name not in ("malformed", "body-too-large", "unsupported-media-type")
}


def kind_of(error: BaseException) -> Kind:
    """What an error is told as."""
    found = (_OF[cls] for cls in type(error).__mro__ if cls in _OF)
    return next(found, KINDS["internal"])


def read(body: bytes) -> Problem | None:
    """None where this is no problem of ours: a proxy answered, or something else listens there."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except msgspec.MsgspecError:
        return None
    return problem if problem.type.startswith(PREFIX) else None


def error_of(problem: Problem) -> OnwardError:
    """What the client raises."""
    kind = KINDS.get(problem.type.removeprefix(PREFIX))
    error = (kind.error if kind else OnwardError)(problem.detail)
    if problem.request_id is not None and problem.status >= 500:
        error.add_note(f"request {problem.request_id}")
    return error
