"""Requests to GitHub's REST API: the token as a handle, pages, limits of rate, and what went wrong in one sentence."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode

from agentorchestra.core.errors import MissingKeyError, SettingsError, ToolError, WebError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import GitHubSettings
from agentorchestra.tools.web.addresses import parse_address
from agentorchestra.tools.web.http import Answer, WebClient

MOST_BYTES = 16 << 20  # of one answer
REQUEST_S = 30.0
MOST_WAIT_S = 60.0  # of one action in all, where the limit of requests is reached
PER_PAGE = 100
_TRIES = 3
_SAID_CHARS = 300

_NEXT = {
    401: "the token in {token} is not accepted: whoever set it has to make a new one",
    403: "the token in {token} may not do this: give it the permission, or ask whoever owns the repository",
    404: "there is no such thing, or the token in {token} may not see it: check owner, name, number, path and ref",
    405: "it cannot be done in its present state: look at it again",
    409: "it was changed meanwhile: read it again and repeat with its present sha",
    422: "correct what it names",
    429: "try again later",
}


class GitHubApi:
    """GitHub, asked on behalf of a run; raise SettingsError for an address to which no token may be sent."""

    def __init__(self, settings: GitHubSettings, web: WebClient) -> None:
        example = "give an address like https://api.github.com or https://github.example.com/api/v3"
        try:
            base = parse_address(settings.base_url)
        except WebError as error:
            raise SettingsError(f"github.base_url is {settings.base_url!r} ({error}); {example}") from None
        if "?" in base.path:
            raise SettingsError(f"github.base_url is {settings.base_url!r}; {example}")
        if base.scheme == "http" and not (base.ip is not None and base.ip.is_loopback) and base.host != "localhost":
            raise SettingsError(f"github.base_url is {settings.base_url!r}; the token goes over https:// only")
        self._settings = settings
        self.base_url = base.url.rstrip("/")
        self._origin, self._place = base.origin, base.place
        self._web = web

    async def get(self, ctx: RunContext[Any], path: str, **query: str | int | None) -> Any:
        """Return the JSON at a path (quoted as by `parts`); a parameter that is None is left out."""
        answer = await self._ask(ctx, "GET", self._url(path, query), None)
        return _json(answer, f"GET {path}")

    async def pages(
        self, ctx: RunContext[Any], path: str, limit: int, **query: str | int | None
    ) -> tuple[list[Any], bool]:
        """Return the first items of a list, and whether there are more; as many pages as needed are read."""
        entries: list[Any] = []
        page = 0
        while True:
            page += 1
            params = {**query, "per_page": min(PER_PAGE, limit), "page": page}
            answer = await self._ask(ctx, "GET", self._url(path, params), None)
            items = _json(answer, f"GET {path}")
            if not isinstance(items, list):
                raise ToolError(f"GitHub answered GET {path} with something that is no list; check the path")
            entries += items
            # The number of the page is ours: addresses in an answer are never followed with the token.
            more = bool(items) and 'rel="next"' in answer.headers.get("link", "")
            if len(entries) >= limit or not more:
                return entries[:limit], more or len(entries) > limit

    async def send(self, ctx: RunContext[Any], method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Change something there; None in the body is left out."""
        fields = {name: value for name, value in body.items() if value is not None}
        answer = await self._ask(ctx, method, self._url(path, {}), json.dumps(fields).encode())
        return _json(answer, f"{method} {path}")

    def token(self, ctx: RunContext[Any]) -> str | None:
        """Return the token, which the log knows as a secret from here on; None where none is set."""
        with suppress(MissingKeyError):
            return ctx.secret(self._settings.token_env) if self._settings.token_env else None
        return None

    def _url(self, path: str, query: Mapping[str, str | int | None]) -> str:
        text = urlencode({name: value for name, value in query.items() if value is not None})
        return f"{self.base_url}{path}{'?' if text else ''}{text}"

    async def _ask(self, ctx: RunContext[Any], method: str, url: str, body: bytes | None) -> Answer:
        token = self.token(ctx)
        if token is None and method != "GET":
            name = self._settings.token_env
            hint = f"export {name}=... before the run" if name else "name a variable in the settings, github.token_env"
            raise ToolError(f"GitHub lets nobody write without a token; {hint}")
        headers = {
            "accept": "application/vnd.github+json",
            "x-github-api-version": "2022-11-28",
            "user-agent": "agentorchestra",
        }
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        if body is not None:
            headers["content-type"] = "application/json"
        total = 0.0
        for again in range(_TRIES):
            answer = await self._answer(method, url, headers, body)
            if (wait_s := _retry_wait(answer)) is None:
                break
            if again == _TRIES - 1 or total + wait_s > MOST_WAIT_S:
                raise ToolError(
                    f"GitHub allows no further requests for {wait_s:.0f} seconds (its limit of rate); the run waits "
                    f"for at most {MOST_WAIT_S:.0f}: try again later, or do something else first"
                )
            # It refused: nothing happened, so even what writes may be asked again.
            await asyncio.sleep(wait_s)
            total += wait_s
        self._check_place(method, answer)
        if not 200 <= answer.status < 300:
            raise ToolError(self._sentence(method, url, answer, token))
        return answer

    async def _answer(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        try:
            return await self._web.request(
                method,
                url,
                headers=headers,  # the client sends the token to no other origin
                data=body,
                allowed=[self._place],  # the user named it, wherever it is
                max_bytes=MOST_BYTES,
                timeout_s=REQUEST_S,
                retry=False,
            )
        except WebError as error:
            if method == "GET" or error.kind == "refused":
                raise
            raise ToolError(f"{error}; the change may or may not have been made: look before doing it again") from None

    def _check_place(self, method: str, answer: Answer) -> None:
        """Refuse what came from elsewhere, and what became of a change that was sent on."""
        if parse_address(answer.url).origin != self._origin:
            raise ToolError(
                f"GitHub sent the request on to {_words(answer.url)}, another host, where the token does not go; "
                "check github.base_url"
            )
        if answer.redirects and method != "GET":
            raise ToolError(
                f"GitHub sent the request on to {_words(answer.url)}: the repository has another name now, and the "
                "change may or may not have been made; look at it under its present name first"
            )

    def _sentence(self, method: str, url: str, answer: Answer, token: str | None) -> str:
        path = url.removeprefix(self.base_url).partition("?")[0]
        message = _message(answer.body)
        if token:
            message = message.replace(token, f"secret:{self._settings.token_env}")
        status = answer.status
        hint = _NEXT.get(status, "it failed by itself: try again later" if status >= 500 else "check the call")
        if status == 404 and token is None and method == "GET":
            hint = "there is no such thing, or none sees it without a token: check owner, name, number, path and ref"
        detail = f': "{message}"' if message else ""
        return (
            f"GitHub answered {status} to {method} {_words(path)}{detail}; "
            f"{hint.format(token=self._settings.token_env or 'the settings')}"
        )


def parts(*names: str | int) -> str:
    """Return the parts of a path, each quoted behind a slash; raise ToolError for parts that lead elsewhere."""
    path = ""
    for name in names:
        for piece in str(name).strip("/").split("/"):
            if piece in ("", ".", "..") or any(ord(char) < 32 for char in piece):
                raise ToolError(f"{str(name)[:100]!r} is no name on GitHub; give one without empty parts, . and ..")
            path += "/" + quote(piece, safe="")
    return path


def _retry_wait(answer: Answer) -> float | None:
    """Return seconds to wait for where the limit of rate is reached, None where it is not."""
    headers = answer.headers
    if answer.status not in (403, 429):
        return None
    after = headers.get("retry-after", "")
    if after.isdigit():
        return float(min(int(after), 1 << 31))
    if headers.get("x-ratelimit-remaining") == "0" and headers.get("x-ratelimit-reset", "").isdigit():
        # Both times are the server's: its clock and ours need not agree.
        try:
            now = parsedate_to_datetime(headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError):
            now = time.time()
        return min(max(1.0, float(headers["x-ratelimit-reset"][:12]) - now), float(1 << 31))
    return 60.0 if answer.status == 429 else None


def _json(answer: Answer, request: str) -> Any:
    if answer.status == 204 or not answer.body:
        return None
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise ToolError(f"GitHub answered {request} with something that is not JSON; check github.base_url") from None


def _message(body: bytes) -> str:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(answer, dict):
        return ""
    errors = answer.get("errors")
    pieces = [str(answer.get("message", ""))]
    for error in errors[:5] if isinstance(errors, list) else ():
        if isinstance(error, dict):
            detail = " ".join(str(error[key]) for key in ("resource", "field", "code", "message") if key in error)
            pieces.append(detail)
        else:
            pieces.append(str(error))
    return _words("; ".join(piece for piece in pieces if piece))


def _words(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:_SAID_CHARS]
