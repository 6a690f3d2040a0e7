"""What a model's reply means: its thoughts, its words, its calls, and whether it was cut.

Calls come in the provider's own form or written into the text: as JSON (bare, fenced, between the marks of a family of
models), as elements (`<function=..>`, `<invoke ..>`, `<arg_key>`), in a channel of gpt-oss, or as Python. A written
call ends the reply: what words go on behind is quoted. Of a reply that was cut nothing is made without its end.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import ModelResponse, ToolCall, ToolSchema
from agentorchestra.core.reply_text import DECODER, FENCE, PYTHON, read_json, split_thoughts, starts_line, values_in
from agentorchestra.tea.calling.argument_repair import ARGUMENT_KEYS, repair

READ_WHOLE = 3
"""The number of `RunManifest.checks` from which on replies are read in all their forms."""

DECISION_FIELDS = ("thinking", "thought", "evaluation_previous_goal", "memory", "next_goal", "tool", "answer")

RawCall = tuple[str, JsonValue]
"""A call as it stands in a text: a name, and an object, its JSON or another value."""


@dataclass(frozen=True)
class ModelReply:
    """What a model's reply means.

    Attributes:
        thoughts: the reasoning, the provider's own and what was marked so in the text.
        words: the text without thoughts and calls.
        text: the text without thoughts.
        calls: names of tools that there are, as far as one was meant; arguments in the types that their schemas want.
        cut: it was cut at its limit.
        incomplete: the last call has no end, or cannot be read: it is not made.
        repairs: of each call what was read otherwise than it was written, "" for nothing.
        fields: the JSON object of a decision, where the text holds one.
        problem: why a call is not among `calls`, a sentence for the model; "" for none.
    """

    thoughts: str
    words: str
    text: str
    calls: tuple[ToolCall, ...]
    cut: bool
    incomplete: bool
    repairs: tuple[str, ...]
    fields: dict[str, Any] | None
    problem: str

    def repair_of(self, call: ToolCall) -> str:
        """Return what was read otherwise of a call than it was written, whatever id it has got since."""
        alike = ((own.name, own.arguments) == (call.name, call.arguments) for own in self.calls)
        return next((note for note, same in zip(self.repairs, alike, strict=True) if same), "")


class _BrokenError(ValueError):
    """A call that begins and cannot be read: its name, as far as there is one, and its text."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name)
        self.name, self.text = name, text


def read_reply(
    response: ModelResponse, schemas: Sequence[ToolSchema], *, native: bool, finish: str = "done", former: bool = False
) -> ModelReply:
    """Return what a reply means.

    Args:
        schemas: of the tools that it may call.
        native: whether they were offered in the provider's own form.
        finish: the tool that ends the agent's work.
        former: read no more forms than runs did that began before `READ_WHOLE`.
    """
    tools, cut = {schema.name: schema for schema in schemas}, response.finish_reason == "length"
    thoughts, text = ("", response.text) if former else split_thoughts(response.text)
    fields = decision_fields(text, former=former)
    json_calls = [call for call in _listed_in(fields) if not native or former or _tool_name(call[0], tools) in tools]
    if not native and (json_calls or any(name in (fields or ()) for name in DECISION_FIELDS)):
        words, raw_calls, error = text.partition("{")[0].partition("```")[0], json_calls, None
    else:
        words, raw_calls, error = _text_calls(text, tools, cut=cut, former=former)
        if not raw_calls and error is None and json_calls:
            words, raw_calls = "", json_calls
    blocks = [code for code in FENCE.finditer(text) if code["open"] is None and code["language"].casefold() in PYTHON]
    if not native and not raw_calls and error is None and len(blocks) == 1 and "python" in tools:
        words = text[: blocks[0].start()] + text[blocks[0].end() :]
        raw_calls = [("python", {"code": blocks[0]["inside"]})]
    calls, problem, open_ = [_call(*call) for call in raw_calls], "", error is not None and bool(error.name)
    if error is not None and error.name:
        calls.append(_call(error.name, error.text))
    elif error is not None and not cut:
        problem = (
            "your reply held a call that was not made: it cannot be read, or words follow it. Write it again, with its "
            "name and arguments as JSON and nothing behind it"
        )
    origin = "written into the text" if native and calls else ""
    if own := response.tool_calls:
        if not former and (beside := {call.name for call in calls} - {call.name for call in own}):
            problem = f"the call of {', '.join(sorted(beside))} in your text was not made: there were calls beside it"
        calls, origin, open_ = [*own], "", cut and not former and isinstance(own[-1].arguments, str)
        words = text if former else words
    repairs = ["" for _ in calls]
    for index, call in enumerate([] if former else [*calls]):
        calls[index] = _repair_call(call, tools, finish, whole=not open_ or index < len(calls) - 1)
        repairs[index] = origin or _difference(call, calls[index])
    reasoning = str((fields or {}).get("thinking") or (fields or {}).get("thought") or "")
    thoughts = "\n\n".join(part for part in (response.thinking, thoughts, reasoning) if part)
    if not former and thoughts and not (calls or text.strip()) and response.finish_reason == "stop":
        problem = (
            f"your reply was nothing but thoughts, and no call in them is made; call a tool, or {finish}, after them"
        )
    return ModelReply(
        thoughts, words if former else words.strip(), text, tuple(calls), cut, open_, tuple(repairs), fields, problem
    )


def _call(name: str, value: JsonValue) -> ToolCall:
    return ToolCall(id="", name=name, arguments=value if isinstance(value, dict | str) else json.dumps(value))


def _difference(original: ToolCall, result: ToolCall) -> str:
    """Return what was read otherwise in a call: its name, and the names of arguments, without their values."""
    notes = [] if original.name == result.name else [f"called {original.name[:100]}"]
    if original.arguments != result.arguments and isinstance(result.arguments, dict):
        before = original.arguments if isinstance(original.arguments, dict) else {}
        changed = [name for name, value in result.arguments.items() if before.get(name) != value]
        notes.append(f"written otherwise: {', '.join(changed)}")
    return "; ".join(notes)


def _repair_call(call: ToolCall, tools: Mapping[str, ToolSchema], finish: str, *, whole: bool) -> ToolCall:
    """Return a call of the tool that is meant, with its arguments in the types that it takes; else the same."""
    update: dict[str, Any] = {} if (name := _tool_name(call.name, tools)) == call.name else {"name": name}
    if whole and name in tools:
        arguments = repair(call.arguments, tools[name].parameters, finishes=name == finish)
        if arguments is not None and repr(arguments) != repr(call.arguments):
            update["arguments"] = arguments
    return call.model_copy(update=update) if update else call


def _tool_name(name: str, tools: Mapping[str, ToolSchema]) -> str:
    """Return the name of the tool that is meant: without `functions.`, a token behind it, blanks and capitals."""
    if name in tools:
        return name
    short = re.sub(r":\d+\Z", "", name.partition("<|")[0].strip())
    for candidate in (short, short.rpartition(".")[2], short.rpartition(":")[2]):
        same = [candidate] if candidate in tools else [key for key in tools if _plain(key) == _plain(candidate) != ""]
        if len(same) == 1:
            return same[0]
    return short.removeprefix("functions.") or name


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name[:100])).casefold()


# -- calls in JSON -----------------------------------------------------------------------------------------------------


_NAME_KEYS = ("name", "tool_name", "function_name", "tool", "function", "action", "recipient_name")
_LIST_KEYS = ("tool_calls", "tool_uses", "function_calls", "calls")


def _calls_in(value: Any, *, has_mark: bool) -> list[RawCall]:
    """Return the calls of an object or a list of objects; none if any of them is something else.

    `has_mark`: a mark says that these are calls, so one without arguments is a call too.
    """
    if isinstance(value, dict):
        value = next((value[key] for key in _LIST_KEYS if isinstance(value.get(key), list)), [value])
    calls: list[RawCall] = []
    for entry in value if isinstance(value, list) and all(isinstance(entry, dict) for entry in value) else ():
        inner = next((entry[key] for key in ("function", "function_call") if isinstance(entry.get(key), dict)), entry)
        name = next((inner[key] for key in _NAME_KEYS if isinstance(inner.get(key), str)), None)
        arguments: Any = next((inner[key] for key in ARGUMENT_KEYS if key in inner), {} if has_mark else None)
        if name is None and has_mark and len(inner) == 1:
            ((name, arguments),) = inner.items()
        if name is None or arguments is None or not (has_mark or isinstance(arguments, dict | str)):
            return []
        calls.append((name, arguments))
    return calls


def _listed_in(fields: Mapping[str, Any] | None) -> list[RawCall]:
    value = (fields or {}).get("tool")
    items = [value] if isinstance(value, dict) else value if isinstance(value, list) else []
    entries = [call if isinstance(call, dict) else {"name": str(call)} for call in items]
    return [(str(entry.get("name", "")), entry.get("args", entry.get("arguments", {}))) for entry in entries]


def decision_fields(text: str, *, former: bool = False) -> dict[str, Any] | None:
    """Return the JSON object in a reply that looks most like a decision, wherever it is; None without one."""
    try:
        whole = None if former or not text.lstrip().startswith(("{", "```")) else read_json(text)
        if isinstance(whole, dict):
            return whole
    except ValueError:
        pass
    dicts = [value for value in values_in(text) if isinstance(value, dict)]
    return max(dicts, key=lambda data: sum(field in data for field in DECISION_FIELDS) + ("tool" in data), default=None)


# -- calls in a text ---------------------------------------------------------------------------------------------------


_ELEMENT = r"<(?:function(?:=|[ ]name=)|(?:antml:|｜DSML｜)?invoke[ ]name=)"
_OPENS = re.compile(
    rf"""(?P<line><(?:seed:|minimax:)?tool_calls?> | <TOOLCALL> | <(?:antml:)?function_calls?> | (?={_ELEMENT}))
    | <｜DSML｜(?:function|tool)_calls> | <\|tool_calls?(?:_start|_begin|_section_begin)?\|?>
    | <[|｜]tool[▁_]calls?[▁_]begin[|｜]> | <\|python_(?:tag|start)\|> | <\|START_ACTION\|> | <\|action_start\|>
    | <\|plugin\|> | <start_function_call> | \[TOOL_CALLS\] | functools(?=\[)
    | (?:<\|start\|>assistant)?<\|channel\|>(?:commentary|analysis)[ ]?to= | <\|start\|>assistant[ ]?to=
    | (?P<weak>```[ \t]*(?:json|tool_code|tool_calls?|xml|python|py)?[ \t]*\n\s* | (?=[{{\[]))""",
    re.VERBOSE | re.IGNORECASE,
)
_LEADS = re.compile(r"<|\[T|functools\[|^[ \t]*(?=```|\{|\[)", re.MULTILINE)
_CLOSES = re.compile(
    r"""</(?:tool_calls?|TOOLCALL|(?:seed|minimax):tool_call|(?:antml:)?function_calls?|function|(?:antml:)?invoke)>
    | </｜DSML｜\w+> | <\|/?tool_calls?(?:_end|_section_end)?\|> | <tool_call\|> | <[|｜]tool[▁_]calls?[▁_]end[|｜]>
    | <\|(?:python_end|END_ACTION|action_end|call|end|eom_id|eot_id)\|> | <end_function_call> | \n[ \t]*```""",
    re.VERBOSE | re.IGNORECASE,
)
_BLANK = re.compile(r"(?:[\s,;}\]]|```)+")
_NAME_HEAD = re.compile(
    r"""(?:function\s*<[|｜]tool[▁_]sep[|｜]>)? (?P<name>[\w.:/-]{1,100})
    (?:\s|<[|｜]tool[▁_]sep[|｜]>|\[ARGS\]|\[CALL_ID\]\w{1,40}|\bjson\b|```
    |<\|tool_call_argument_begin\|>|<\|constrain\|>|<\|message\|>|<\|channel\|>\w{0,20})* (?=\{)""",
    re.VERBOSE,
)
_TALK = re.compile(r"(?P<name>[\w.]{1,100})[ ]?\w{0,20}<\|message\|>")
_KEY_HEAD = re.compile(r"(?P<name>[\w.:/-]{1,100})\s*(?=<arg_key>|</tool_call>)")
_KEY = re.compile(r"\s*<arg_key>(?P<name>[^<]{1,100})</arg_key>\s*(?:</arg_key>\s*)?<arg_value>")
_HEAD = re.compile(rf"{_ELEMENT}[\"']?(?P<name>[^\"'<>]{{1,100}})[\"']?>", re.IGNORECASE)
_PARAMETER = re.compile(
    r"\s*<(?:antml:|｜DSML｜)?parameter(?:=| name=)[\"']?(?P<name>[^\"'<>=]{1,100})[\"']?(?: [^<>]{0,40})?>\n?"
)
_PARAMETER_END = re.compile(r"(?P<end></(?:antml:|｜DSML｜)?parameter>)|(?=\n<parameter[= ]|\n?</(?:function|invoke)>)")
_VALUE_END = re.compile(r"</arg_value>")
_ELEMENT_END = re.compile(r"</(?:antml:|｜DSML｜)?(?:function|invoke)>", re.IGNORECASE)
_GEMMA = re.compile(r"call:(?P<name>[\w.:/-]{1,100})(?=\{)")
_ANY_NAME = re.compile(r"""["'](?:name|tool_name|tool|function)["']\s*:\s*["']([^"']{1,100})["']""")
_PYTHON_CALL = re.compile(r"\[?\s*[A-Za-z_][\w.]{0,100}\s*\(")
_MOST_PYTHON = 200_000  # characters of calls in Python that are read
_MOST_WEAK = 20  # blocks and brackets in a text that are tried


def _opening(text: str, at: int, *, former: bool) -> re.Match[str] | None:
    """Return the next mark that opens a call: elements and fences at the start of a line, a model's tokens anywhere."""
    for lead in _LEADS.finditer(text, at):
        mark = _OPENS.match(text, lead.start() if lead[0].strip() else lead.end())
        if mark is None or (former and not _was_read(text, mark)):
            continue
        behind = text[mark.start() - 1 : mark.start()] == ">"
        if mark["line"] is None or behind or starts_line(text, mark.start()):
            return mark
    return None


def _was_read(text: str, mark: re.Match[str]) -> bool:
    """Return whether runs that began before `READ_WHOLE` took a mark for the beginning of a call."""
    if mark["weak"] is not None:
        return not text[: mark.start()].strip()
    return mark["line"] == "<tool_call>" or text.startswith("<function=", mark.end())


def _text_calls(
    text: str, tools: Mapping[str, ToolSchema], *, cut: bool, former: bool
) -> tuple[str, list[RawCall], _BrokenError | None]:
    """Return a text's words, the calls at its end, and a further one that cannot be read."""
    words, calls, at, weak, tries = list[str](), list[RawCall](), 0, False, 0
    while (mark := _opening(text, at, former=former)) is not None:
        words.append(text[at : mark.start()])
        weak, at, inside = mark["weak"] is not None, mark.end(), True
        try:
            while at < len(text):
                if (blank := _BLANK.match(text, at)) is not None:
                    at = blank.end()
                elif (closed := _CLOSES.match(text, at)) is not None:
                    at, inside = closed.end(), False
                elif not weak and (more := _OPENS.match(text, at)) is not None and more.end() > at:
                    at, inside = more.end(), True
                elif inside or text[at] == "{" or _HEAD.match(text, at) is not None:
                    batch, at = _body(text, at, tools, has_mark=not weak)
                    calls, inside = [*calls, *batch], False
                    if (weak or former) and not all(_tool_name(name, tools) in tools for name, _ in batch):
                        raise _BrokenError("", text[at:])
                else:
                    break
        except _BrokenError as exc:
            is_tool = bool(exc.name) and _tool_name(exc.name, tools) in tools
            if is_tool and cut if weak else exc.name or calls or starts_line(text, mark.start()):
                return "".join(words).strip(), calls, exc
            if not weak or calls or (tries := tries + 1) > _MOST_WEAK:
                return text, [], None
            words.append(text[mark.start() : mark.end() + 1])
            at = mark.end() + 1
    if calls and (behind := text[at:].strip()):
        return text, [], None if former else _BrokenError("", behind)
    return ("".join(words).strip(), calls, None) if calls else (text, [], None)


def _body(text: str, at: int, tools: Mapping[str, ToolSchema], *, has_mark: bool) -> tuple[list[RawCall], int]:
    """Return the calls that begin at a place behind an opening mark, and where they end."""
    if (head := _HEAD.match(text, at)) is not None:
        return _element(text, head)
    if (key_head := _KEY_HEAD.match(text, at)) is not None:
        return _element(text, key_head)
    closed = _CLOSES.search(text, at)
    end = closed.start() if closed is not None else len(text)
    body, name, talk = text[at:end].strip(), "", None
    try:
        if (name_head := _NAME_HEAD.match(text, at)) is not None and not name_head["name"].startswith("call:"):
            name = name_head["name"]
            value, stop = _object(text, name_head.end(), end)
            return [(name, value)], stop
        if (talk := _TALK.match(text, at)) is not None and closed is not None:
            return [(talk["name"], text[talk.end() : end])], end
        if (gemma := _GEMMA.match(body)) is not None:  # bare keys, and texts between tokens
            name, pieces = gemma["name"], re.split(r"<escape>|<\|\"\|>", body[gemma.end() :])
            pieces[::2] = [re.sub(r"([{,]\s*)([A-Za-z_]\w*)\s*:", r'\1"\2":', piece) for piece in pieces[::2]]
            pieces[1::2] = map(canonical_json, pieces[1::2])
            return [(name, read_json("".join(pieces)))], end
        value, stop = _object(text, at, end) if text[at] in "{[" else (None, end)
        if calls := _calls_in(value, has_mark=has_mark):
            return calls, stop
    except (ValueError, RecursionError):
        pass
    if calls := _pythonic(body, tools):
        return calls, end
    match = _ANY_NAME.search(body, 0, 2_000)
    raise _BrokenError(name or (match[1] if match is not None else talk["name"] if talk is not None else ""), body)


def _object(text: str, at: int, end: int) -> tuple[Any, int]:
    """Return the value of the JSON at a place, and where it ends; of JSON in a looser form, what is up to `end`."""
    try:
        return DECODER.raw_decode(text, at)
    except ValueError:
        return read_json(text[at:end]), end


def _element(text: str, head: re.Match[str]) -> tuple[list[RawCall], int]:
    """Return the call of an element with parameters, JSON or a text inside, or of a name with keys and values."""
    name, at, arguments = head["name"].strip(), head.end(), dict[str, JsonValue]()
    while (key := _PARAMETER.match(text, at) or _KEY.match(text, at)) is not None:
        ends = _PARAMETER_END if "parameter" in key[0] else _VALUE_END
        stop = ends.search(text, key.end())
        if stop is None:
            raise _BrokenError(name, text[head.end() :])
        value = text[key.end() : stop.start()]
        arguments[key["name"].strip()] = value.removesuffix("\n") if ends is _PARAMETER_END else value
        at = stop.end()
    if arguments or not head[0].startswith("<"):
        return [(name, arguments)], at
    closed = _ELEMENT_END.search(text, at)
    if closed is None:
        raise _BrokenError(name, text[at:])
    return [(name, text[at : closed.start()].strip() or {})], closed.end()


def _pythonic(body: str, tools: Mapping[str, ToolSchema]) -> list[RawCall]:
    """Return the calls of `[f(a=1), g(2)]`, of `print(f(a=1))`, or of a line for each; none if it is anything else."""
    if _PYTHON_CALL.match(body) is None or len(body) > _MOST_PYTHON:
        return []
    calls: list[RawCall] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes: list[Any] = [getattr(statement, "value", None) for statement in ast.parse(body).body]
        nodes = [node for tree in nodes for node in (tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree])]
        for node in nodes:
            call: Any = node.args[0] if ast.unparse(node.func) == "print" and "print" not in tools else node
            name = _tool_name(ast.unparse(call.func).removesuffix(".call"), tools)
            takes = [*tools[name].parameters.get("properties", {})] if name in tools else []
            arguments: dict[str, Any] = dict(zip(takes, map(ast.literal_eval, call.args), strict=False))
            arguments |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
            calls.append((name, read_json(canonical_json(arguments))))
    except (SyntaxError, ValueError, TypeError, AttributeError, IndexError, RecursionError, MemoryError):
        return []
    return calls
