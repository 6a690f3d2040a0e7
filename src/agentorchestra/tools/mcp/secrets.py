"""The secrets in a file of MCP servers. A secret that is missed is worse than a word that is hidden for nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import SplitResult, parse_qsl, unquote

_NAMES = re.compile(
    r"(?:^|[_.-])(?:API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET|TOKEN|PAT|PASS|PASSWORD|PASSWD|PWD|PASSPHRASE|CREDENTIALS?"
    r"|KEY|AUTH|AUTHORIZATION|COOKIE|DSN|SIGNATURE|SIG|CODE)(?:$|[_.-])",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHORTEST = 6  # as the redactor: shorter values are ordinary words
_PLAIN_VALUE = re.compile(r"[+-]?\d[\d.,:_-]*|[A-Za-z]{1,12}|(?:~|\.{1,2})?/\S*|[a-zA-Z]:\\.*")
_PLAIN_URL = re.compile(r"https?://[^@\s?]+", re.IGNORECASE)
_PLAIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent", "cache-control"})
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey|Digest)\s+(\S.*)", re.IGNORECASE)
_RANDOM = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[A-Za-z0-9_~.-]{20,}")
_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)


def is_secret_name(name: str) -> bool:
    """Return True if a variable, option or parameter of this name holds a secret."""
    return _NAMES.search(_CAMEL.sub("_", name)) is not None


def is_secret_value(name: str, value: str) -> bool:
    """Return True unless a value is a number, a word, a path or an address without a secret."""
    if len(value) < _SHORTEST:
        return False
    return is_secret_name(name) or not (_PLAIN_VALUE.fullmatch(value) or _PLAIN_URL.fullmatch(value))


def header_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the values of headers, and what stands behind `Bearer` in them."""
    found = {}
    for name, value in headers.items():
        if name.lower() in _PLAIN_HEADERS:
            continue
        found[name] = value
        if match := _SCHEME.fullmatch(value):
            found[f"{name}.credentials"] = match[1]
    return found


def argument_secrets(args: Sequence[str]) -> dict[str, str]:
    """Return the values of options such as `--api-key VALUE` and `--token=VALUE`, and passwords in addresses."""
    found = {}
    waiting = ""
    for one in args:
        option = _OPTION.fullmatch(one)
        if option is None:
            if waiting:
                found[waiting] = one
            elif match := re.match(r"[a-z][a-z0-9+.-]*://[^/@\s:]*:([^/@\s]+)@", one, re.IGNORECASE):
                found["password"] = unquote(match[1])
            waiting = ""
        elif is_secret_name(option[1]):
            waiting = option[1] if option[2] is None else ""
            if option[2]:
                found[option[1]] = option[2]
        else:
            waiting = ""
    return found


def url_secrets(parts: SplitResult) -> dict[str, str]:
    """Return the password of an address, its parameters that are keys, and long random parts of its path."""
    found = {}
    if parts.password:
        found["password"] = unquote(parts.password)
    for name, value in parse_qsl(parts.query):
        if is_secret_name(name) or _RANDOM.fullmatch(value):
            found[name] = value
    for segment in parts.path.split("/"):
        if _RANDOM.fullmatch(segment):
            found["path"] = segment
    return found
