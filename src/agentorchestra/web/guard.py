"""The guard: Host header and token are checked before anything else is looked at."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentorchestra.core.errors import SettingsError

SHORTEST_TOKEN = 16
_TOKEN = re.compile(r"[!-~]+")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@?#\s]+)(?::\d{1,5})?")


class Guard:
    """Lets a request in that names an allowed host and brings the token; adds headers for browsers to every answer.

    Without a token one is generated. The allowed hosts are names in the Host header, without port.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, allowed_hosts: Collection[str]) -> None:
        self._app = app
        self.token = secrets.token_urlsafe(32) if token is None else checked_token(token)
        self._hosts = frozenset(host.strip("[]").lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            refusal = self._refusal(Headers(scope=scope))
            await (refusal or self._app)(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, headers: Headers) -> Response | None:
        hosts = headers.getlist("host")
        host = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if host is None or host[1].strip("[]").lower() not in self._hosts:
            sent_hosts = repr(", ".join(hosts)[:200])
            allowed = ", ".join(sorted(self._hosts))
            return problem(f"the Host header is {sent_hosts}; this server answers to {allowed}", 421)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        # Bytes: compare_digest takes text only if it is ASCII. The time it takes does not tell where they differ.
        same = hmac.compare_digest(token.strip().encode(), self.token.encode())
        if scheme.lower() != "bearer" or not same:
            state = "wrong" if token else "missing"
            sentence = f"the token is {state}; send the header 'Authorization: Bearer TOKEN'"
            return problem(sentence, 401, headers={"WWW-Authenticate": "Bearer"})
        return None


def checked_token(token: str) -> str:
    """Return the token, if it can be one; else raise SettingsError without the token in the sentence."""
    if len(token) < SHORTEST_TOKEN or not _TOKEN.fullmatch(token):
        raise SettingsError(
            f"the token has {len(token)} characters or some that cannot stand in a header; "
            f"give at least {SHORTEST_TOKEN} letters, digits or signs without spaces"
        )
    return token


def problem(
    sentence: str, status: int, *, kind: str = "HttpRequestError", headers: dict[str, str] | None = None
) -> Response:
    """Return an error as JSON: `{error, error_type}`."""
    return JSONResponse({"error": sentence, "error_type": kind}, status_code=status, headers=headers)


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Cache-Control"] = "no-store"
            headers["X-Content-Type-Options"] = "nosniff"
        await send(message)

    return with_headers
