"""The `mcpServers` file that the common clients share: which servers there are, and what of it is secret.

{"mcpServers": {
    "weather": {"command": "uvx", "args": ["weather-server"], "env": {"API_KEY": "${WEATHER_KEY}"}},
    "docs": {"type": "http", "url": "https://docs.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN:-x}"}}
}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import BaseModel, Field, ValidationError

from agentorchestra.core.errors import McpError

STARTUP_S = 60.0  # seconds until a server has said what it is and which tools it has
MAX_BYTES = 1_000_000
MAX_SERVERS = 100
_LONGEST_PREFIX = 55  # the name of a tool that is cut keeps as much
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STDIO = frozenset({"stdio"})
_HTTP = frozenset({"http", "streamable-http", "streamable_http", "streamablehttp"})


@dataclass(frozen=True)
class Server:
    """One server of the file: a program that speaks over its standard input and output, or one reached over HTTP."""

    name: str  # its key in the file
    required: bool = False  # whether nothing goes on without it
    trust: bool = False  # whether what it says about its tools may loosen what they are taken to do
    timeout_s: float | None = None  # seconds one call may take; None for the workspace's limit
    startup_s: float = STARTUP_S  # seconds until it has said what it is and which tools it has
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class McpFile:
    servers: tuple[Server, ...]  # those that are not disabled
    names: tuple[str, ...]  # of all
    secrets: Mapping[str, str]  # what must not reach the log, name -> value
    notes: tuple[str, ...]  # what was passed over, a sentence each


class _Entry(BaseModel, extra="allow", strict=True):
    """A server as it is written."""

    type: str | None = None
    transport: str | None = None
    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    httpUrl: str | None = None  # as some clients write it
    serverUrl: str | None = None
    headers: dict[str, str] = {}
    disabled: bool = False
    enabled: bool = True
    required: bool = False
    trust: bool = False
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    startup_timeout_s: float = Field(default=STARTUP_S, gt=0, allow_inf_nan=False)


# Fields that change nothing anywhere
_KNOWN_ELSEWHERE = frozenset({"description", "name", "$comment", "comment", "icon"})


def read_mcp_file(path: Path, environ: Mapping[str, str]) -> McpFile:
    """Read, check and fill in a file; `${VAR}` comes from `environ`. McpError names what is wrong and what to do."""
    sections = _servers(path)
    _check_prefixes(sections, path)
    servers, secrets, notes = [], dict[str, str](), list[str]()
    for name, value in sections.items():
        label = f"the MCP server {name!r} in {path}"
        if not name.strip():
            raise McpError(f"{path} has an MCP server without a name; name it by its key in mcpServers")
        if not isinstance(value, dict):
            raise McpError(f'{label} is {_short(value)}; write an object, e.g. {{"command": "uvx", "args": [...]}}')
        entry = _entry(value, label)
        if entry.disabled or not entry.enabled:
            continue
        server, values = _Filling(label, name, environ, path.absolute().parent).server(entry)
        servers.append(server)
        secrets |= values
        extras = sorted(set(entry.model_extra or {}) - _KNOWN_ELSEWHERE)
        if extras:
            notes.append(f"{label} has {', '.join(map(repr, extras))}, which nothing here reads")
    return McpFile(tuple(servers), tuple(sections), secrets, tuple(notes))


def prefix_of(server: str) -> str:
    """Return how the names of a server's tools begin, in the characters and the length that such names have."""
    return as_name(f"{server}_")[:_LONGEST_PREFIX]


def as_name(text: str) -> str:
    """Return a text in the characters that names of tools have."""
    name = _NOT_IN_NAMES.sub("_", text)
    return name if re.match(r"[A-Za-z_]", name) else f"_{name}"


def _check_prefixes(names: Iterable[str], path: Path) -> None:
    """Check that the tools of no two servers would be called the same."""
    owners: dict[str, str] = {}
    for name in names:
        other = owners.setdefault(prefix_of(name), name)
        if other != name:
            raise McpError(
                f"the tools of the MCP servers {other[:80]!r} and {name[:80]!r} in {path} would have the same names, "
                f"which begin with {prefix_of(name)}; rename one of them"
            )


def _servers(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise McpError(f"{path} has {path.stat().st_size:,} bytes; a file of MCP servers has at most {MAX_BYTES:,}")
        text = path.read_text(encoding="utf-8-sig")
        document = json.loads(text)
    except OSError as exc:
        raise McpError(
            f"the file of MCP servers {path} cannot be read: {exc.strerror or exc}; give the path of a JSON file with "
            '"mcpServers"'
        ) from None
    except (ValueError, RecursionError) as exc:
        raise McpError(f"{path} is not JSON: {exc}; correct it") from None
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        has_servers = isinstance(document, dict) and isinstance(document.get("servers"), dict)
        other = ' (its servers are under "servers": rename that key)' if has_servers else ""
        raise McpError(
            f'{path} has no object "mcpServers"{other}; write {{"mcpServers": {{"NAME": {{"command": "..."}}}}}}'
        )
    if len(servers) > MAX_SERVERS:
        raise McpError(f"{path} names {len(servers):,} MCP servers; at most {MAX_SERVERS} can be used")
    return servers


def _entry(value: dict[str, Any], label: str) -> _Entry:
    try:
        return _Entry.model_validate(value)
    except ValidationError as exc:
        flaw = exc.errors(include_url=False)[0]
        place = ".".join(str(part) for part in flaw["loc"])
        # The value may be a secret: its type says enough.
        raise McpError(f"{label}: {place} does not fit: {flaw['msg']} (it is {type(flaw['input']).__name__})") from None


class _Filling:
    def __init__(self, label: str, name: str, environ: Mapping[str, str], folder: Path) -> None:
        self._where = label
        self._name = name
        self._environ = environ
        self._folder = folder
        self._secrets: dict[str, str] = {}

    def server(self, entry: _Entry) -> tuple[Server, dict[str, str]]:
        common: dict[str, Any] = {"required": entry.required, "trust": entry.trust, "timeout_s": entry.timeout_s}
        common["startup_s"] = entry.startup_timeout_s
        server = self._http(entry, common) if self._over_http(entry) else self._stdio(entry, common)
        return server, {f"{self._name}.{name}": value for name, value in self._secrets.items()}

    def _over_http(self, entry: _Entry) -> bool:
        kind = entry.type or entry.transport
        addresses = [address for address in (entry.url, entry.httpUrl, entry.serverUrl) if address is not None]
        if kind is None:
            if bool(addresses) == (entry.command is not None):
                word = "both" if addresses else "neither"
                raise McpError(f'{self._where} has {word} "command" and "url"; give one of them')
            return bool(addresses)
        if kind.lower() == "sse":
            raise McpError(
                f"{self._where} has the transport 'sse', which streamable HTTP has replaced; give the address of its "
                'streamable HTTP endpoint (it often ends with /mcp) and "type": "http"'
            )
        if kind.lower() not in _STDIO | _HTTP:
            raise McpError(f"{self._where} has the unknown transport {kind!r}; the transports: stdio, http")
        http = kind.lower() in _HTTP
        key = "url" if http else "command"
        if not (addresses if http else entry.command):
            raise McpError(f'{self._where} has the transport {kind!r} and no "{key}"; add it')
        return http

    def _stdio(self, entry: _Entry, common: dict[str, Any]) -> Server:
        command = self._text(entry.command or "", "command").strip()
        if not command or "\0" in command:
            raise McpError(f'{self._where} has an empty "command"; name the program that is the server')
        args = tuple(self._text(arg, f"args.{number}") for number, arg in enumerate(entry.args))
        env = {name: self._text(value, f"env.{name}") for name, value in entry.env.items()}
        wrong = [name for name, value in env.items() if not name or "=" in name or "\0" in name + value]
        if wrong or any("\0" in arg for arg in args):
            raise McpError(f"{self._where} has env or args with a zero byte or a '=' in a name: {wrong[:1] or 'args'}")
        self._secrets |= {name: value for name, value in env.items() if is_secret_value(name, value)}
        self._secrets |= argument_secrets(args)
        cwd = Path(self._text(entry.cwd, "cwd")).expanduser() if entry.cwd else None
        if command.startswith("~"):
            command = str(Path(command).expanduser())
        return Server(
            self._name, **common, command=command, args=args, env=env, cwd=None if cwd is None else self._folder / cwd
        )

    def _http(self, entry: _Entry, common: dict[str, Any]) -> Server:
        url = self._text(entry.url or entry.httpUrl or entry.serverUrl or "", "url").strip()
        parts = _split(url)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", url):
            raise McpError(f"{self._where} has a url that is no address; it looks like https://host/mcp")
        headers = {name: self._text(value, f"headers.{name}").strip() for name, value in entry.headers.items()}
        for name, value in headers.items():
            if not _HEADER.fullmatch(name) or not value.isprintable() or not value.isascii():
                raise McpError(
                    f"{self._where} has the header {name!r}, which cannot be sent: its name or its value has "
                    "characters that headers do not have"
                )
        self._secrets |= header_secrets(headers)
        self._secrets |= url_secrets(parts)
        return Server(self._name, **common, url=url, headers=headers)

    def _text(self, text: str, place: str) -> str:
        return _VARIABLE.sub(lambda match: self._value(match, place), text)

    def _value(self, match: re.Match[str], place: str) -> str:
        inside = match[1]
        if inside.startswith("input:"):
            raise McpError(
                f"{self._where} asks for {match[0]} in {place}; nobody is asked here: put the value into an "
                "environment variable and write ${VAR}"
            )
        parts = _NAME.fullmatch(inside)
        if parts is None:
            return match[0]  # no variable: a script's own words
        name, default = parts[1], parts[2]
        value = self._environ.get(name) or default
        if value is None:
            raise McpError(
                f"{self._where} needs the environment variable {name} in {place}, which is not set; set it, or "
                f"write ${{{name}:-default}}"
            )
        if is_secret_name(name) and value != default:
            self._secrets[name] = value
        return value


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
        unquote(parts.netloc)
    except ValueError:
        return None
    return parts


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


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
    secrets = {}
    for name, value in headers.items():
        if name.lower() in _PLAIN_HEADERS:
            continue
        secrets[name] = value
        if match := _SCHEME.fullmatch(value):
            secrets[f"{name}.credentials"] = match[1]
    return secrets


def argument_secrets(args: Sequence[str]) -> dict[str, str]:
    """Return the values of options such as `--api-key VALUE` and `--token=VALUE`, and passwords in addresses."""
    secrets = {}
    waiting = ""
    for arg in args:
        option = _OPTION.fullmatch(arg)
        if option is None:
            if waiting:
                secrets[waiting] = arg
            elif match := re.match(r"[a-z][a-z0-9+.-]*://[^/@\s:]*:([^/@\s]+)@", arg, re.IGNORECASE):
                secrets["password"] = unquote(match[1])
            waiting = ""
        elif is_secret_name(option[1]):
            waiting = option[1] if option[2] is None else ""
            if option[2]:
                secrets[option[1]] = option[2]
        else:
            waiting = ""
    return secrets


def url_secrets(parts: SplitResult) -> dict[str, str]:
    """Return the password of an address, its parameters that are keys, and long random parts of its path."""
    secrets = {}
    if parts.password:
        secrets["password"] = unquote(parts.password)
    for name, value in parse_qsl(parts.query):
        if is_secret_name(name) or _RANDOM.fullmatch(value):
            secrets[name] = value
    for segment in parts.path.split("/"):
        if _RANDOM.fullmatch(segment):
            secrets["path"] = segment
    return secrets
