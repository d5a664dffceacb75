"""Values that lie in the payload store, for those who cannot reach it.

Answers hold a pointer where a value is large, as the journal does: a list of runs must not fetch a thousand objects.
One route gives the value that any pointer names, inputs, outputs, steps and what is handed to outside programs alike,
so a client needs to know nothing but the pointer. It is bound to the tenant by the key itself, which holds it; and to
the pointer by size and SHA-256, so nothing is read but what was journalled.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from onward.core.pointers import BINARY, JSON, TEXT, Pointer
from onward.errors import NotFound
from onward.server.calls import Call
from onward.server.routes import Answer, Route

_KINDS = {"application/json": JSON, "text/plain": TEXT, "text/plain; charset=utf-8": TEXT, BINARY: BINARY}


class Pointed(Struct, rename="camel", forbid_unknown_fields=True):
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    size: Annotated[int, Meta(ge=0, le=2**50)]
    content_type: Literal["application/json", "text/plain", "text/plain; charset=utf-8", "application/octet-stream"] = (
        "application/json"
    )


async def payload(call: Call) -> Answer:
    """Read the value that a pointer names, as JSON: `{"$payload": {key, sha256, size, contentType}}`."""
    query: Pointed = call.query
    key = call.path["key"]
    await call.client.database()
    place = await call.client.payloads.place()
    owner = None if place is None else place.layout.owner(key)
    if owner is None or owner.tenant != call.client.tenant:
        raise NotFound(f"no payload {key[:200]!r}")
    pointer = Pointer(key, query.sha256, query.size, _KINDS[query.content_type])
    return Answer(await call.client.payloads.load(pointer))


ROUTES = (
    Route(
        "GET",
        "/v1/payloads/{key}",
        payload,
        "read",
        {200: object},
        query=Pointed,
        problems=("not-found", "payload-missing", "payload-corrupt"),
    ),
)
