"""The address of a PostgreSQL database, and how it is shown: never with its password."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from agentorchestra.core.errors import MissingExtraError, SettingsError

SCHEMES = ("postgresql://", "postgres://")

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_OWN_CHARACTERS = "/.-_~"


class Address:
    """A database's address, as `database` in the settings gives it.

    Raises:
        SettingsError: if it is none.
        MissingExtraError: if the driver is not installed.
    """

    def __init__(self, url: str) -> None:
        if not url.startswith(SCHEMES):
            # Whatever stands there may hold a password: only the scheme is repeated.
            scheme = url.partition(":")[0][:20] if ":" in url else ""
            raise SettingsError(
                f"database begins with {scheme!r}; give an address of PostgreSQL, postgresql://user@host:5432/name, "
                "or leave it out for SQLite in the workspace's folder"
            )
        driver = load_driver()
        try:
            parts: dict[str, Any] = driver.conninfo.conninfo_to_dict(url)
        except driver.ProgrammingError:
            # The driver's own words repeat parts of the address.
            raise SettingsError(
                "database is no address that PostgreSQL's driver can read; write postgresql://user@host:5432/name, "
                "special characters of user and password as %XX"
            ) from None
        self.url = url
        self.name = str(parts.get("dbname") or parts.get("user") or "")
        self.shown = _display(parts)  # without the password


def _display(parts: dict[str, Any]) -> str:
    host, port, name = (str(parts.get(key) or "") for key in ("host", "port", "dbname"))
    port = port if port.strip(",") else ""  # several hosts without a port each
    user = quote(str(parts.get("user") or ""), safe=_OWN_CHARACTERS)
    if host.startswith("/"):  # a socket
        server, last = "", f"?host={quote(host, safe=_OWN_CHARACTERS)}" + (f"&port={port}" if port else "")
    else:
        server, last = host + (f":{port}" if port else ""), ""
    return f"postgresql://{user}{'@' if user else ''}{server}/{quote(name, safe=_OWN_CHARACTERS)}{last}"


def check_schema(schema: str) -> str:
    """Return the name if a schema can have it without being quoted everywhere; SettingsError if not."""
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise SettingsError(
            f"database_schema is {schema!r}; a schema's name has small letters, digits and underscores, at most 48, "
            "and begins with neither a digit nor pg_"
        )
    return schema


def load_driver() -> Any:
    """Return the module `psycopg`; MissingExtraError if it is not installed."""
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError as exc:
        raise MissingExtraError(
            f"a database on PostgreSQL needs the extra postgres ({exc}); install it with "
            "`pip install 'agentorchestra[postgres]'`, or leave `database` out for SQLite"
        ) from None
    return psycopg
