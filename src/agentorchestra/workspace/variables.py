"""Where keys are looked up: the process's environment, an `.env` file, the system's keyring, in this order."""

from __future__ import annotations

import contextlib
import io
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import KeyStoreError, SettingsError
from agentorchestra.core.settings import Settings

ENV_FILE = ".env"
GIT_S = 10  # seconds that git has to say whether it ignores a file
SERVICE = "agentorchestra"
"""The name under which the keyring holds keys; the user there is the variable's name."""


class Variables(Mapping[str, str]):
    """The process's variables over those of a file, over the keyring's.

    The process wins also where its variable is empty; what the file has (`NAME=VALUE`, without `${...}`) is taken as it
    is, and `invalid` are the numbers of other lines. The keyring is asked only for the names `keyring`, once each, and
    when somebody wants them. SettingsError: the file cannot be read, or names a setting.
    """

    def __init__(self, environ: Mapping[str, str], file: Path | None = None, keyring: tuple[str, ...] = ()) -> None:
        from dotenv.parser import parse_stream

        try:
            text = "" if file is None else file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeError) as exc:
            raise SettingsError(f"{file} cannot be read: {exc}; correct it, or change the setting env_file") from None
        lines = list(parse_stream(io.StringIO(text)))
        self.file, self.keyring = file, keyring
        self.invalid = tuple(line.original.line for line in lines if line.error)
        file_values = {line.key: line.value for line in lines if line.key is not None and line.value is not None}
        self._of_keyring: dict[str, str] = {}
        mappings: tuple[Mapping[str, str], ...] = (environ, file_values, self._of_keyring)
        self._mappings = [*zip(("environment", str(file), "keyring"), mappings, strict=True)]
        for name in file_values:
            if name.startswith("AGENTORCHESTRA_") and name not in environ:
                raise SettingsError(
                    f"{file} holds {name}, and settings are not read from there; write it into agentorchestra.toml, "
                    "or export it"
                )

    def place(self, name: str) -> str:
        """Return where a variable has its value: `environment`, the file's path, `keyring`; "" for nowhere."""
        places = ((place if values[name] else "") for place, values in self._mappings if name in values)
        return next(places, "") if name in self else ""

    def __getitem__(self, name: str) -> str:
        """Return a value; raise KeyStoreError if the keyring that should hold it cannot be used."""
        for _, values in self._mappings:
            if name in values:
                return values[name]
        value = _of_keyring(lambda keyring: keyring.get_password(SERVICE, name)) if name in self.keyring else None
        if value is None:
            raise KeyError(name)
        return self._of_keyring.setdefault(name, value)

    def __contains__(self, name: object) -> bool:
        return bool(self.among((str(name),)))

    def among(self, names: Iterable[str]) -> dict[str, str]:
        """Return the values of those of these variables that have one."""
        result = {}
        for name in names:
            for _, values in self._mappings:
                if name in values:
                    result[name] = values[name]
                    break
            else:
                if name in self.keyring:
                    with contextlib.suppress(KeyError, KeyStoreError):
                        result[name] = self[name]
        return result

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys([*(name for _, values in self._mappings for name in values), *self.keyring])
        return (name for name in names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def variables_of(settings: Settings, environ: Mapping[str, str], near: Path, default: str | None) -> Variables:
    """Return the variables that the settings mean; `near` is their folder, `default` a file where they name none."""
    if isinstance(environ, Variables):
        return environ
    file = near / settings.env_file if settings.env_file else None
    if settings.env_file is None and default is not None and Path(default).is_file():  # a folder is somebody's venv
        file = Path(default)
    return Variables(environ, file, settings.keyring)


def values_of(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the values of those of these variables that have one that is not empty."""
    values = environ.among(names) if isinstance(environ, Variables) else {n: environ[n] for n in names if n in environ}
    return {name: value for name, value in values.items() if value}


def keep_in_file(file: Path, name: str, value: str) -> None:
    """Write `NAME=VALUE` into a file, for its owner alone, beside its other lines; KeyStoreError if it cannot be."""
    from dotenv import set_key

    try:
        if file.is_symlink() or file.exists():
            if not stat.S_ISREG(file.lstat().st_mode):
                raise OSError("it is no plain file")
            file.read_text(encoding="utf-8")
            file.chmod(0o600)  # before the key is in it: the file that takes its place has its mode
        set_key(file, name, value, quote_mode="auto")
    except (OSError, UnicodeError) as exc:
        raise KeyStoreError(
            f"{file} cannot hold the key: {exc}; correct that, or choose --key-store env or keyring"
        ) from None


def git_problem(file: Path) -> str:
    """Return why Git may take a file along, "" if it ignores it or has no repository there."""
    command = ["git", "-C", str(file.absolute().parent), "check-ignore", "--quiet", file.name]
    try:
        is_ignored = subprocess.run(command, capture_output=True, check=False, timeout=GIT_S).returncode == 1
    except OSError:
        return ""
    except subprocess.TimeoutExpired:
        return f"Git did not say within {GIT_S} s whether it ignores {file}: see that .gitignore names {file.name}"
    return f"Git does not ignore {file}: write {file.name} into .gitignore" if is_ignored else ""


def keep_in_keyring(name: str, value: str) -> None:
    """Put a key into the system's keyring; KeyStoreError if it cannot be."""
    _of_keyring(lambda keyring: keyring.set_password(SERVICE, name, value))
    if _of_keyring(lambda keyring: keyring.get_password(SERVICE, name)) != value:
        raise KeyStoreError("the keyring of this system keeps nothing; choose --key-store file")


def keyring_problem() -> str:
    """Return why the system's keyring cannot be used, "" if it seems that it can; ask it for nothing."""
    try:
        return "" if _of_keyring(lambda ring: ring.get_keyring().priority > 0) else "no keyring runs on this system"
    except KeyStoreError as exc:
        return str(exc)


def _of_keyring(work: Callable[[Any], Any]) -> Any:
    try:
        import keyring
    except ImportError:
        raise KeyStoreError(
            "the package keyring is not installed; run: pip install 'agentorchestra[keyring]', or keep the key in "
            ".env: agentorchestra setup --key-store file"
        ) from None
    try:
        return work(keyring)
    except Exception as exc:  # each system's has errors of its own
        reason = " ".join((str(exc) or type(exc).__name__).split())[:200]
        raise KeyStoreError(
            f"the keyring of this system cannot be used ({reason}); keep the key in .env (agentorchestra setup "
            "--key-store file), or export it"
        ) from None
