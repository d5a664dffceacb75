"""Who asks, and what they may.

- `presence`: an Authorization header must be there, and that is all: whoever stands in front of the server has checked
  it. `Onward-Tenant` names the tenant.
- `tokens`: `Authorization: Bearer onw_…` must be a token that is neither expired nor revoked. It names its tenant and a
  scope; read < signal < write < admin. To its holder no other tenant exists: an `Onward-Tenant` that names another one
  is answered 404, as are that tenant's runs.
- `none`: everybody, everything. `onward server` takes it on loopback only, and behind `Local`.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from onward.core import names
from onward.errors import InvalidInput
from onward.server import problems
from onward.server.problems import Refused
from onward.server.service import Service
from onward.store.tokens import SCOPES

MODES = ("none", "presence", "tokens")

TENANT = "onward-tenant"
_CHALLENGE = 'Bearer realm="onward"'


class Caller(NamedTuple):
    """Whose runs they see, and how much they may do. `named`: the tenant that they asked for; `walled`: there is no
    other for them."""

    tenant: str
    scope: str
    named: str | None = None
    walled: bool = False

    def check(self, scope: str) -> None:
        """May they ask a route of this scope?"""
        if self.named not in (None, self.tenant):
            raise Refused(
                "not-found", f"your token sees the tenant {self.tenant!r} and no other: leave Onward-Tenant out"
            )
        if SCOPES.index(scope) > SCOPES.index(self.scope):
            raise Refused(
                "forbidden",
                f"this needs a token of scope {scope}, and yours is of scope {self.scope}: "
                f"onward token create --tenant {self.tenant} --scope {scope}",
                {"WWW-Authenticate": f'{_CHALLENGE}, error="insufficient_scope", scope="{scope}"'},
            )


ANYBODY = Caller("default", SCOPES[0])
"""Who asks for what needs no Authorization header."""


class Auth(Protocol):
    """Tells who asks, or refuses."""

    async def __call__(self, headers: Headers, service: Service) -> Caller: ...


def auth(mode: str) -> Auth:
    try:
        return {"none": _nobody, "presence": _presence, "tokens": _tokens}[mode]
    except KeyError:
        raise InvalidInput(f"auth is one of {', '.join(MODES)}; got {mode!r}") from None


async def _nobody(headers: Headers, service: Service) -> Caller:
    return Caller(_named(headers), SCOPES[-1])


async def _presence(headers: Headers, service: Service) -> Caller:
    if not headers.get("authorization", "").strip():
        raise _unauthorized("send an Authorization header")
    return Caller(_named(headers), SCOPES[-1])


async def _tokens(headers: Headers, service: Service) -> Caller:
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    if not scheme:
        raise _unauthorized("send Authorization: Bearer and a token, which `onward token create` makes")
    if scheme.lower() != "bearer" or len(headers.getlist("authorization")) > 1:
        raise _unauthorized("send one Authorization header, of the scheme Bearer")
    grant = await (await service.tokens()).check(token.strip())
    if grant is None:
        raise _unauthorized("this token is unknown, expired or revoked: make another with `onward token create`", True)
    return Caller(*grant, named=headers.get(TENANT), walled=True)


def _named(headers: Headers) -> str:
    return names.tenant_name(headers.get(TENANT, "default"))


def _unauthorized(detail: str, invalid: bool = False) -> Refused:
    challenge = f'{_CHALLENGE}, error="invalid_token"' if invalid else _CHALLENGE
    return Refused("unauthorized", detail, {"WWW-Authenticate": challenge})


# ---- without any, on this machine ------------------------------------------------------------------------------


class Local:
    """A server that asks nobody who they are must not be asked by web pages: one in the browser on this machine can
    send requests to loopback. It is told by its Origin, or by a name of its own that it had resolved to loopback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            if not is_loopback(_host(f"//{headers.get('host', '')}")) or (origin and not is_loopback(_host(origin))):
                detail = "without --auth the server answers programs of this machine only: use 127.0.0.1 or localhost"
                refusal = problems.answer(Refused("forbidden", detail), "local", scope["path"])
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def is_loopback(host: str) -> bool:
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
