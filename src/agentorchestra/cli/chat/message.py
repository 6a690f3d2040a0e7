"""What a user types in a chat: files that are named with @, long texts that become files, completion."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from agentorchestra.cli.output import say
from agentorchestra.core.errors import ChatError

MOST_CHARS = 20_000
"""Characters of a text that stand in a message; a longer one that is pasted becomes a file."""

_FILE = re.compile(r'(?:^|(?<=\s))@(?:"([^"]+)"|([^\s"]+))')
_OPEN_NAME = re.compile(r'(?:^|(?<=\s))@(?:"([^"]*)|([^\s"]*))$')
_BEHIND = ".,;:!?)"  # what may stand behind a path in a sentence
_WORD = re.compile(r'"([^"\n]+)"|([^\s"\'`()<>\[\],;:!?]+)')
_LARGEST = 10_000_000  # bytes of a file that is offered without an @


def files_in(text: str) -> list[Path]:
    """Return the files and folders that a message names with @, each once; raise ChatError if one is not there."""
    files: dict[Path, None] = {}
    for match in _FILE.finditer(text):
        inner, bare = match.groups()
        names = [inner] if inner else [bare, bare.rstrip(_BEHIND)]
        paths = [Path(name).expanduser() for name in names if name]
        path = next((path for path in paths if os.path.exists(path)), None)  # noqa: PTH110 - False for a name too long
        if path is None:
            raise ChatError(
                f"there is no file {inner or bare!r} to attach; correct its path (write one with blanks in quotes: "
                '@"my file.pdf"), or write a blank behind the @'
            )
        files[path] = None
    return list(files)


def files_named(text: str) -> list[Path]:
    """Return the files of this folder that a message names without an @, each once: none hidden, none large."""
    words = (Path(inner or bare.rstrip(".")) for inner, bare in _WORD.findall(text))
    return [fromkey for fromkey in dict.fromkeys(words) if _is_offered(fromkey) and fromkey not in files_in(text)]


def files_here() -> Iterator[Path]:
    """Yield the files of this folder that may be offered, by name, without its settings."""
    with contextlib.suppress(OSError):
        paths = (path for path in sorted(Path().iterdir()) if path.name != "agentorchestra.toml")
        yield from filter(_is_offered, paths)


def _is_offered(file: Path) -> bool:
    """Return True for a file in this folder. Its name has an ending: what is called `test` is more often a word."""
    if not file.suffix or any(part.startswith((".", "/")) for part in file.parts):
        return False
    with contextlib.suppress(OSError):
        return file.resolve() == file.absolute() and file.is_file() and file.stat().st_size <= _LARGEST
    return False


def at(path: object) -> str:
    """Return what names a file in a message."""
    return f'@"{path}"' if re.search(r"\s", str(path)) else f"@{path}"


def kept_as_file(text: str, folder: Path) -> str:
    """Write a long text into a new file of a folder; return what names it in a message, "" with none."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="pasted-", suffix=".txt", delete=False) as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError as exc:
        say(f"error: the pasted text cannot be kept in {folder} ({exc.strerror}); name a file of yours with @")
        return ""
    return f'@"{folder / Path(file.name).name}" '


class MessageCompleter(Completer):
    """Completes commands behind a /, which `names` gives, and paths behind an @."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        if re.fullmatch(r"/\S*", before):
            for name in self._names():
                if name.startswith(before[1:]):
                    yield Completion(f"/{name}", start_position=-len(before))
            return
        match = _OPEN_NAME.search(before)
        if match is None:
            return
        inner, bare = match.groups()
        start = bare if inner is None else inner
        for completion in self._paths.get_completions(Document(start), complete_event):
            path = start + completion.text
            text = f'@"{path}"' if inner is not None else at(path)
            yield Completion(text, start_position=-len(match.group()), display=completion.display)
