"""The web room: `agentorchestra.web.asgi(ws)`, a small HTTP interface to a workspace; needs the extra `web`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from agentorchestra.core.errors import MissingExtraError

if TYPE_CHECKING:
    from agentorchestra.web.app import WebApp
    from agentorchestra.workspace import Workspace

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
"""The names of this machine for itself."""

MAX_BODY_BYTES = 16 * 1024 * 1024
"""The most bytes one request may bring (files are base64 in it: a third larger than they are)."""


def asgi(
    ws: Workspace[Any],
    *,
    token: str | None = None,
    allowed_hosts: Collection[str] = LOOPBACK_HOSTS,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> WebApp:
    """Return an ASGI application over a workspace: submit, status, events, answers, cancellation (docs/web.md).

    Its lifespan opens the workspace if it is not open and drives the runs of its queue, some at a time. Those that are
    under way when the server stops are handed on to the next one.

    Args:
        token: what every request must bring as `Authorization: Bearer TOKEN`, at least 16 characters without spaces;
            without it one is generated: the application's attribute `token`.
        allowed_hosts: the names a request may have in its Host header, without port. Any other is refused: a web page
            whose name was made to point here (DNS rebinding) comes with its own name.
        max_body_bytes: the most bytes of one request's body.

    Raises:
        MissingExtraError: if the extra `web` is not installed.
        SettingsError: for a token that is too short or cannot stand in a header.
    """
    try:
        from agentorchestra.web.app import WebApp
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("agentorchestra"):
            raise
        raise missing_extra(exc) from None
    return WebApp(ws, token=token, allowed_hosts=allowed_hosts, max_body_bytes=max_body_bytes)


def missing_extra(exc: ModuleNotFoundError) -> MissingExtraError:
    return MissingExtraError(
        f"the web interface needs the package {(exc.name or '').partition('.')[0]}, which is not installed; "
        'run: pip install "agentorchestra[web]"'
    )


__all__ = ["LOOPBACK_HOSTS", "MAX_BODY_BYTES", "asgi", "missing_extra"]
