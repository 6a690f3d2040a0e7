"""`agentorchestra setup`: a model, its key, search and browser, as a dialogue or by options."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from agentorchestra.cli.commands.models import Configured, ask_once, configuration
from agentorchestra.cli.driver import run_async
from agentorchestra.cli.options import WORDS, json_option, workspace_option
from agentorchestra.cli.output import bill, clean, emit, emit_json, one_line, say
from agentorchestra.core.errors import (
    AgentOrchestraError,
    KeyStoreError,
    MissingExtraError,
    MissingKeyError,
    ModelAuthError,
    ModelError,
    UsageError,
)

SERVER = "server"  # in place of a provider's name: a server with OpenAI's format, by its address
SERVER_KEY = "MODEL_API_KEY"  # the variable with the key of a server whose maker is not known
_ADDRESS = "http://127.0.0.1:11434/v1"
_MENU = {  # providers, each with a model that is proposed
    "openai": ("gpt-5", "needs a key, OPENAI_API_KEY"),
    "anthropic": ("claude-opus-4-5", "needs a key, ANTHROPIC_API_KEY"),
    "google": ("gemini-3-pro", "needs a key, GOOGLE_API_KEY"),
    SERVER: ("", "by its address: Ollama, llama.cpp, vLLM, LM Studio, any other with OpenAI's format"),
    "offline": ("", "no model and no key: rules that look into files"),
}
_TEMPLATE = Path(__file__).parent / "templates" / "settings.toml"
_YES_NO = click.Choice(["yes", "no"])


@click.command(
    epilog="""\b
Examples:
  agentorchestra setup
  agentorchestra setup --provider openai --model gpt-5 --search yes --browser no
  agentorchestra setup --base-url http://127.0.0.1:11434/v1 --model qwen3
  pass show openai | agentorchestra setup --provider openai --model gpt-5 --key-stdin

\b
Exit codes: 0 written; 1 if the model did not answer, or nothing could be written;
2 wrong usage; 130 stopped."""
)
@click.option("--provider", metavar="P", type=WORDS, help="openai, anthropic, google, server, offline, or another one.")
@click.option("--model", metavar="M", type=WORDS, help="The model, as its provider names it.")
@click.option("--base-url", metavar="URL", type=WORDS, help="The address of a server with OpenAI's format.")
@click.option(
    "--key-store",
    type=click.Choice(["env", "file", "keyring"]),
    help="Where the key is kept: env, you set it yourself; file, .env of this folder; keyring, the system's.",
)
@click.option("--key-stdin", is_flag=True, help="Read the key from stdin; it is kept in .env if nothing else is said.")
@click.option("--search", type=_YES_NO, help="Whether the web is searched; yes also installs what is missing.")
@click.option("--browser", type=_YES_NO, help="Whether a browser is used; yes also installs what is missing.")
@click.option("--no-check", is_flag=True, help="Do not ask the model first.")
@json_option("one object with what was written")
@workspace_option
@click.pass_context
def setup(ctx: click.Context, /, as_json: bool, folder: Path, **options: Any) -> int:
    """Choose a model, keep its key, try it with one request, and write agentorchestra.toml.

    At a terminal it asks for what the options leave open; elsewhere that stays as it is. A key stands neither in the
    settings nor in the log: it is looked up in the environment, then in .env of the folder that a command runs in, then
    in the system's keyring. In a settings file that is there only the lines concerned change.
    """
    from agentorchestra.workspace.settings_file import edit_settings, settings_target

    asks = sys.stdin.isatty() and not as_json and not options["key_stdin"]
    place = "" if ctx.get_parameter_source("folder") is ParameterSource.DEFAULT else folder
    if asks and not place:
        answer = _ask("Folder of the workspace", lambda text: settings_target(Path(text)), default=str(folder))
        place, folder = "" if answer == str(folder) else answer, Path(answer)
    target = settings_target(folder)
    if target.exists():
        say(f"{target} is there; only the lines concerned change")
    dialogue = Dialogue(configuration(folder), options, asks=asks)
    usage = None if options["no_check"] else dialogue.try_model()
    about = f" ({dialogue.label})" if dialogue.profile else ""
    search = dialogue.wants("search", "Search the web?", _search_lacks)
    browser = dialogue.wants("browser", "Use a browser?", _browser_lacks)
    dialogue.keep_key()
    edit_settings(folder, dialogue.changes(search), new=_TEMPLATE.read_text(encoding="utf-8"))
    end = f" --workspace {shlex.quote(str(place))}" if place else ""
    commands = ("chat", 'run "What is this about?" --file FILE', "doctor")
    following = [f"agentorchestra {command}{end}" for command in commands]
    if as_json:
        model = {"settings": str(target), "model": dialogue.name, "key": dialogue.variable}
        checks = {"key_store": dialogue.store, "check": None if usage is None else usage.model_dump(mode="json")}
        emit_json({**model, **checks, "search": search, "browser": browser, "next": following})
    else:
        emit(clean("\n".join([f"wrote {target}: the default model is {dialogue.name}{about}", "next:", *following])))
    return 0


def _ask(question: str, check: Callable[[str], Any] | None = None, **options: Any) -> str:
    """Return an answer; ask again with the sentence of what `check` raises."""

    def accept(answer: str) -> str:
        try:
            if check is not None:
                check(answer.strip())
        except AgentOrchestraError as exc:
            raise click.UsageError(str(exc)) from None
        return answer.strip()

    answer: str = click.prompt(question, err=True, value_proc=None if check is None else accept, **options)
    return answer.strip()


def _provider(answer: str) -> str:
    from agentorchestra.models.providers import PROVIDERS

    name = dict(zip("12345", _MENU, strict=True)).get(answer, answer)
    if name not in _MENU and name not in PROVIDERS:
        raise UsageError(
            f"no provider {name!r}; type a number from 1 to 5, or one of {', '.join([*_MENU, *PROVIDERS][3:])}"
        )
    return name


def _check_name(answer: str) -> None:
    if not answer:
        raise UsageError("a model's name is needed, as its provider or server writes it")


def _word(text: str) -> str:
    key = text.strip()
    if not key or not key.isprintable() or " " in key:
        raise KeyStoreError("the key is empty, or more than one word; give the key alone")
    return key


class Dialogue:
    """The answers, from options or from a terminal: a model's `name`, the fields of its `profile`, if it has one, and
    the `variable` of its key, whose new value `key` goes to `store` ("" and None where nothing is new).
    """

    def __init__(self, of: Configured, options: dict[str, Any], *, asks: bool) -> None:
        self._of, self._options, self._asks = of, options, asks
        self.profile: dict[str, Any] = {}
        self._begin()

    def _begin(self) -> None:
        self.name, self.profile, self.variable = self._choice()
        with suppress(MissingKeyError):  # what is wrong besides is said before a key is typed
            self._manager(None).check(self.name)
        self.key, self.store = self._new_key() if self.variable else (None, "")

    def _choice(self) -> tuple[str, dict[str, Any], str]:
        from agentorchestra.models.manager import check_address
        from agentorchestra.models.prices import is_loopback
        from agentorchestra.models.providers import PROVIDERS

        provider, model, address = (self._options[name] for name in ("provider", "model", "base_url"))
        with_key = self._options["key_stdin"] or self._options["key_store"]
        before = self._of.settings.models
        if provider is None and address is not None:
            provider = SERVER
        if provider is None and self._asks:
            for n, (name, (_, about)) in enumerate(_MENU.items(), 1):
                say(f"  {n}  {name:<10} {about}")
            provider = _provider(_ask("Provider, by number or name", _provider, default="1"))
        if provider == "offline":
            if model or address or with_key:
                raise click.UsageError("offline is no model of a provider: it takes no model, address or key")
            return "offline", {}, ""
        if provider == SERVER and address is None and self._asks:
            address = _ask("Address of the server", check_address, default=self.profile.get("base_url", _ADDRESS))
        if model is None and self._asks:
            default = _MENU.get(provider, ("",))[0]
            model = _ask("Model", _check_name, default=default, show_default=bool(default))
        for option, value in (("provider", provider), ("model", model), ("base-url", provider != SERVER or address)):
            if not value:
                raise click.UsageError(f"--{option} is missing, and there is no terminal to ask at; add it")
        entry = PROVIDERS.get(provider)
        full = f"{'openai' if provider == SERVER else provider}:{model.removeprefix(f'{provider}:')}"
        variable = SERVER_KEY if entry is None else next(iter(entry.key_envs), "")
        address = address or (entry.address if entry is not None else None)
        if address is None:
            return full, {}, variable
        check_address(address)
        name = "local" if is_loopback(address) else SERVER
        if name == "local":
            same = (name in before and before[name].base_url == address and before[name].api_key_env) or ""
            is_server = self._asks and provider == SERVER
            variable = same or ((variable or SERVER_KEY) if with_key or is_server else "")
        profile = {"model": full, "base_url": address}
        return name, profile | ({"price": {"input": 0, "output": 0}} if name == "local" else {}), variable

    def _new_key(self) -> tuple[str | None, str]:
        from agentorchestra.workspace.variables import keyring_problem

        name, store, from_stdin = self.variable, self._options["key_store"], self._options["key_stdin"]
        place, server = self._of.variables.place(name), name == SERVER_KEY
        prompt = f"{name} is set ({place}); send it to this server?"
        new = from_stdin or not place or (server and self._asks and not click.confirm(prompt, default=True, err=True))
        if not new:
            say(f"{name} is set ({place}), and is used")
            return None, ""
        if not from_stdin and (store == "env" or not self._asks):
            return None, "env"
        question = "Key, if the server needs one (empty for none)" if server else f"{name} (it is not shown)"
        key = (
            sys.stdin.read()
            if from_stdin
            else _ask(question, hide_input=True, default="" if server else None, show_default=False)
        )
        if server and not from_stdin and not key:
            self.variable = ""
            return None, ""
        key = _word(key)
        if store is None and self._asks:
            problem = keyring_problem()
            say(f"  file: .env of this folder; env: you set {name} yourself; keyring: {problem or 'the system has it'}")
            stores = ["file", "env"] if problem else ["file", "keyring", "env"]
            store = _ask("Where is it kept?", type=click.Choice(stores), default="file")
        if place == "environment" and store != "env":
            say(f"warning: {name} is set in the environment too, and that value wins; unset it")
        return key, store or "file"

    def _manager(self, key: str | None) -> Any:
        from agentorchestra.core.settings import ModelProfile
        from agentorchestra.models.manager import ModelManager

        settings = self._of.settings
        own = {self.name: ModelProfile(**self.profile, api_key_env=self.variable)} if self.profile else {}
        keys = {**self._of.variables, self.variable: key} if key is not None else self._of.variables
        manager = ModelManager(settings.model_copy(update={"model": self.name, "models": settings.models | own}), keys)
        manager.section = "the address (--base-url)"  # no section is written yet: what was typed can be wrong
        return manager

    @property
    def label(self) -> str:
        """Return the model as its server names it, and the server's address, if it has one of its own."""
        return f"{self.profile['model']} at {self.profile['base_url']}" if self.profile else self.name

    def try_model(self) -> Any:
        """Ask the model one request, at a terminal again with another key; return what it used, None for nothing."""
        while True:
            if self.variable and self.key is None and not self._of.variables.place(self.variable):
                say(f"{self.name} was not asked: {self.variable} is not set; then: agentorchestra models --check")
                return None
            say(f"asking {self.label} ...")
            try:
                usage = run_async(ask_once(self._manager(self.key), self.name))
            except ModelError as exc:
                keyless = isinstance(exc, ModelAuthError) and not self.variable
                reason = f"{exc}: add --key-stdin" if keyless else str(exc)
                if not self._asks:
                    exc.args = (f"{reason}; nothing was written (--no-check writes without asking)",)
                    raise
                say(f"error: {one_line(reason, 1000)}")
                if isinstance(exc, ModelAuthError) and (self.key is not None or not self.variable):
                    if not self.variable:  # a server on this machine that wants one all the same
                        self.variable, self.store = SERVER_KEY, "file"
                    self.key = _word(_ask("Its key (Ctrl-C stops; nothing is written yet)", hide_input=True))
                    continue
                if click.confirm("Write it all the same?", err=True):
                    return None
                say("asking again from the address or the model on; Ctrl-C stops, and nothing is written")
                provider = SERVER if self.profile else self.name.partition(":")[0]
                self._options |= {"provider": provider, "model": None, "base_url": None}
                self._begin()
                continue
            say(f"it answered ({bill(usage)})")
            return usage

    def wants(self, option: str, question: str, lacks: Callable[[], list[str]]) -> bool | None:
        """Return whether something is wanted, None where nothing is said; after a yes install what it lacks."""
        answer, before = self._options[option], [""]
        if answer is None and not self._asks:
            return None
        is_wanted = answer == "yes" if answer else click.confirm(question, default=True, err=True)
        while (command := lacks()) and command != before:
            line = shlex.join(["python", "-m", *command])
            say(f"  it needs: {line}")
            if not is_wanted or (answer is None and not click.confirm("Run this now?", default=True, err=True)):
                break
            done = subprocess.run([sys.executable, "-m", *command], stdin=subprocess.DEVNULL, stdout=2, check=False)
            importlib.invalidate_caches()
            if done.returncode:
                say(f"warning: it ended with code {done.returncode}; run it yourself: {line}")
            before = command
        return is_wanted

    def keep_key(self) -> None:
        from agentorchestra.workspace.settings import settings_folder
        from agentorchestra.workspace.variables import ENV_FILE, git_problem, keep_in_file, keep_in_keyring

        name, env_file = self.variable, self._of.settings.env_file
        if self.store == "env":
            say(f"set the key yourself: export {name}=...")
        elif self.key is not None and self.store == "keyring":
            keep_in_keyring(name, self.key)
            say(f"the key lies in the system's keyring as {name}")
        elif self.key is not None:
            if env_file == "":
                raise KeyStoreError('env_file = "" reads no .env; take it out of the settings, or choose another store')
            file = settings_folder(self._of.workspace.folder) / env_file if env_file else Path(ENV_FILE)
            keep_in_file(file, name, self.key)
            say(f"the key lies in {file} as {name}; only your user may read it")
            if problem := git_problem(file):
                say(f"warning: {problem}")

    def changes(self, search: bool | None) -> dict[tuple[str, ...], Any]:
        settings = self._of.settings
        changes: dict[tuple[str, ...], Any] = {("model",): self.name}
        changes |= {("models", self.name, name): value for name, value in self.profile.items()}
        before = settings.models.get(self.name)
        # A server on this machine gets no key where nothing is said; any other line about one must go out of force.
        if self.profile and (self.variable or self.name == SERVER or (before and before.api_key_env)):
            changes["models", self.name, "api_key_env"] = self.variable
        if self.store == "keyring" and self.variable not in settings.keyring:
            changes["keyring",] = [*settings.keyring, self.variable]
        if search is not None and search != bool(settings.search.engines):
            changes["search", "engines"] = ["auto"] if search else []
        return changes


def _search_lacks() -> list[str]:
    return [] if importlib.util.find_spec("ddgs") else ["pip", "install", "agentorchestra[search]"]


def _browser_lacks() -> list[str]:
    from agentorchestra.environments.browser.session.chromium import MODULES, check_installed

    if any(importlib.util.find_spec(name) is None for name in MODULES):
        return ["pip", "install", "agentorchestra[browser]"]
    try:
        check_installed()
    except MissingExtraError:
        return ["playwright", "install", "chromium"]
    return []
