"""What a model's reply means: its thoughts, its words, its calls, and whether it was cut.

Calls come in the provider's own form, or written into the text: as JSON (bare, fenced, between the tags and tokens of
Hermes, Granite, Nemotron, Phi, Llama, Mistral, DeepSeek, Kimi, Cohere), as elements (`<function=..>`, `<invoke ..>`,
`<arg_key>`), in a channel of gpt-oss, or as Python. A written call ends the reply: what is quoted in the middle of
words is words. Of a reply that was cut at its limit nothing is mended, and what has no end is not made.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import ModelResponse, ToolCall, ToolSchema
from agentorchestra.core.reply_text import PYTHON, fenced_blocks, json_at, read_json, split_thoughts, values_in
from agentorchestra.tea.calling.mending import ARGUMENT_KEYS, mended

READ_WHOLE = 3
"""The way of checking (`RunManifest.checks`) from which on replies are read in all their forms."""

DECISION_FIELDS = ("thinking", "thought", "evaluation_previous_goal", "memory", "next_goal", "tool", "answer")

Written = tuple[str, JsonValue]
"""A call as it stands in a text: a name, and an object, its JSON or another value."""


@dataclass(frozen=True)
class Reply:
    """What a model's reply means.

    Attributes:
        thoughts: the reasoning, the provider's own and what was marked so in the text.
        words: the text without thoughts and calls.
        calls: names of tools that there are, as far as one was meant; arguments in the types that their schemas want.
        text: the text without thoughts, as the history keeps it of a model without native calls.
        cut: it was cut at its limit.
        broken: the last call has no end, or cannot be read: it is not made.
        repairs: of each call what was read otherwise than it was written, "" for nothing.
        fields: the JSON object of a decision, where the text holds one.
        problem: why a call is not among `calls`, a sentence for the model; "" for none.
    """

    thoughts: str = ""
    words: str = ""
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    cut: bool = False
    broken: bool = False
    repairs: tuple[str, ...] = ()
    fields: dict[str, Any] | None = None
    problem: str = ""

    def repaired(self, call: ToolCall) -> str:
        """Return what was read otherwise of a call than it was written, whatever id it has got since."""
        same = (one.name == call.name and one.arguments == call.arguments for one in self.calls)
        return next((said for said, found in zip(self.repairs, same, strict=True) if found), "")


class _BrokenError(ValueError):
    """A call that begins and cannot be read: its name, as far as there is one, and its text."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name)
        self.name, self.text = name, text


def read_reply(
    response: ModelResponse, schemas: Sequence[ToolSchema], *, native: bool, finish: str = "done", former: bool = False
) -> Reply:
    """Return what a reply means.

    Args:
        response: of the model.
        schemas: of the tools that it may call.
        native: whether they were offered in the provider's own form.
        finish: the tool that ends the agent's work.
        former: read no more forms than runs did that began before `READ_WHOLE`.
    """
    tools = {one.name: one for one in schemas}
    thoughts, text = ("", response.text) if former else split_thoughts(response.text)
    fields, cut = decision_fields(text, former=former), response.finish_reason == "length"
    listed = [one for one in _listed_in(fields) if not native or former or _resolved(one[0], tools) in tools]
    if not native and (listed or any(name in (fields or ()) for name in DECISION_FIELDS)):
        words, written, broken = text.partition("{")[0].partition("```")[0], listed, None
    else:
        words, written, broken = _written(text, tools, former=former)
    if not written and broken is None and listed:
        words, written = "", listed
    if not native and not written and broken is None and "python" in tools:
        words, written = _program(text)
    if cut and not written and broken is None and not former and (begun := _LINE.search(text)) is not None:
        name = _ANY_NAME.search(text, begun.start(), begun.start() + 2_000)
        if name is not None and _resolved(name[1], tools) in tools:
            words, broken = text[: begun.start()].partition("```")[0], _BrokenError(name[1], text[begun.start() :])
    calls, unread, problem = [_call(*one) for one in written], False, ""
    if broken is not None and broken.name:
        unread = not former
        calls.append(_call(broken.name, broken.text))
    elif broken is not None and not cut:
        problem = f"your reply held a call that cannot be read ({text[-80:]!r}); write its name and arguments as JSON"
    how = "written into the text" if native and calls else ""
    if response.tool_calls:
        if calls and not former and {one.name for one in calls} - {one.name for one in response.tool_calls}:
            problem = f"the call of {calls[0].name} in your text was not made, because there were calls beside it"
        calls, how = list(response.tool_calls), ""
        unread = cut and not former and isinstance(calls[-1].arguments, str)
        words = text if former else words
    repairs = ["" for _ in calls]
    if not former:
        for index, call in enumerate([*calls]):
            calls[index] = _repaired(call, tools, finish, whole=not unread or index < len(calls) - 1)
            changed = how or ("" if calls[index] == call else f"written as {call.name} {str(call.arguments)[:200]}")
            repairs[index] = changed
    said = str((fields or {}).get("thinking") or (fields or {}).get("thought") or "")
    return Reply(
        thoughts="\n\n".join(one for one in (response.thinking, thoughts, said) if one),
        words=words,
        text=text,
        calls=tuple(calls),
        cut=cut,
        broken=unread,
        repairs=tuple(repairs),
        fields=fields,
        problem=problem,
    )


def _call(name: str, given: JsonValue) -> ToolCall:
    return ToolCall(id="", name=name, arguments=given if isinstance(given, dict | str) else canonical_json(given))


def _repaired(call: ToolCall, tools: Mapping[str, ToolSchema], finish: str, *, whole: bool) -> ToolCall:
    """Return a call of the tool that is meant, with its arguments in the types that it takes."""
    name = _resolved(call.name, tools)
    if name not in tools:
        return call if name == call.name else call.model_copy(update={"name": name})
    parameters = tools[name].parameters
    arguments = mended(call.arguments, parameters, finishes=name == finish) if whole else None
    if arguments is None or (repr(arguments) == repr(call.arguments) and name == call.name):
        return call if name == call.name else call.model_copy(update={"name": name})
    return call.model_copy(update={"name": name, "arguments": arguments})


_SHORT = 100  # characters before the object of a reply that is one
_NUMBER = re.compile(r":\d+\Z")


def _resolved(name: str, tools: Mapping[str, ToolSchema]) -> str:
    """Return the name of the tool that is meant: without `functions.`, a token behind it, blanks and capitals."""
    if name in tools:
        return name
    short = _NUMBER.sub("", name.partition("<|")[0].strip())
    for candidate in (short, short.rpartition(".")[2], short.rpartition(":")[2]):
        same = [one for one in tools if _plain(one) == _plain(candidate)] if candidate else []
        if candidate in tools or len(same) == 1:
            return candidate if candidate in tools else same[0]
    return short.removeprefix("functions.") or name


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name[:100])).casefold()


# -- calls in JSON -----------------------------------------------------------------------------------------------------


_NAME_KEYS = ("name", "tool_name", "function_name", "tool", "function", "action", "recipient_name")
_LIST_KEYS = ("tool_calls", "tool_uses", "function_calls", "calls")


def _listed(value: Any, *, marked: bool) -> list[Written]:
    """Return the calls of an object or a list of objects; none if any of them is something else.

    `marked`: a mark says that these are calls, so one without arguments is a call too.
    """
    if isinstance(value, dict):
        value = next((value[key] for key in _LIST_KEYS if isinstance(value.get(key), list)), value)
    found: list[Written] = []
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, dict):
            return []
        inner = next((one[key] for key in ("function", "function_call") if isinstance(one.get(key), dict)), one)
        name = next((inner[key] for key in _NAME_KEYS if isinstance(inner.get(key), str)), None)
        given = next((inner[key] for key in ARGUMENT_KEYS if key in inner), {} if marked else None)
        if name is None and marked and len(inner) == 1:
            ((name, given),) = inner.items()
        if name is None or given is None or not (marked or isinstance(given, dict | str)):
            return []
        found.append((name, given))
    return found


def _listed_in(fields: Mapping[str, Any] | None) -> list[Written]:
    """Return the calls of a decision in the JSON text format."""
    listed = fields.get("tool") if fields else None
    found: list[Written] = []
    for item in [listed] if isinstance(listed, dict) else listed if isinstance(listed, list) else ():
        entry = item if isinstance(item, dict) else {"name": str(item)}
        given = entry.get("args", entry.get("arguments", entry.get("parameters", {})))
        found.append((str(entry.get("name", "")), given))
    return found


def decision_fields(text: str, *, former: bool = False) -> dict[str, Any] | None:
    """Return the JSON object in a reply that looks most like a decision, wherever it is; None without one."""
    try:
        whole = None if former or "{" not in text[:_SHORT] else read_json(text)
        if isinstance(whole, dict):
            return whole
    except ValueError:
        pass
    found = [one for one in values_in(text) if isinstance(one, dict)]
    return max(found, key=lambda one: sum(field in one for field in DECISION_FIELDS) + ("tool" in one), default=None)


def _program(text: str) -> tuple[str, list[Written]]:
    """Return the words around the one program that a reply holds, fenced as Python, and its call."""
    found = [one for one in fenced_blocks(text) if one.closed and one.language in PYTHON]
    if len(found) != 1:
        return text, []
    return text[: found[0].start] + text[found[0].end :], [("python", {"code": found[0].inside})]


# -- calls in a text ---------------------------------------------------------------------------------------------------


_ELEMENT = r"<(?:function(?:=|[ ]name=)|(?:antml:|｜DSML｜)?invoke[ ]name=)"
_OPENS = re.compile(
    rf"""(?P<line>
      <tool_calls?> | <TOOLCALL> | <(?:seed|minimax):tool_call> | <(?:antml:)?function_calls?> | <tools>
      | (?={_ELEMENT})
    ) | <｜DSML｜(?:function|tool)_calls> | <\|tool_calls?(?:_start|_begin|_section_begin)?\|?>
    | <[|｜]tool[▁_]calls?[▁_]begin[|｜]> | <\|python_(?:tag|start)\|> | <\|START_ACTION\|> | <\|action_start\|>
    | <\|plugin\|> | <\|tools_prefix\|> | <start_function_call> | \[TOOL_CALLS\] | functools(?=\[) | ✿FUNCTION✿:
    | (?:<\|start\|>assistant)?<\|channel\|>(?:commentary|analysis)[ ]?to= | (?:<\|start\|>assistant)[ ]?to=
    """,
    re.VERBOSE | re.IGNORECASE,
)
_LEADS = re.compile(r"<|✿|\[T|functools\[")
_CLOSES = re.compile(
    r"""</(?:tool_calls?|TOOLCALL|(?:seed|minimax):tool_call|(?:antml:)?function_calls?|tools|function|(?:antml:)?invoke)>
    | </｜DSML｜\w+> | <\|/?tool_calls?(?:_end|_section_end)?\|> | <tool_call\|> | <[|｜]tool[▁_]calls?[▁_]end[|｜]>
    | <\|(?:python_end|END_ACTION|action_end|tools_suffix|call|end|eom_id|eot_id)\|> | <end_function_call>
    | ✿RESULT✿:? """,
    re.VERBOSE | re.IGNORECASE,
)
_BLANK = re.compile(r"(?:[\s,;}\]]|```)+")
_NAMED = re.compile(
    r"""(?:function\s*<[|｜]tool[▁_]sep[|｜]>)? (?P<name>[\w.:/-]{1,100})
    (?:\s|<[|｜]tool[▁_]sep[|｜]>|<\|tool_call_argument_begin\|>|\[CALL_ID\]\w{1,40}|\[ARGS\]|<\|constrain\|>|<\|message\|>
    |<\|channel\|>\w{0,20}|\bjson\b|```|✿ARGS✿:)* (?=\{)""",
    re.VERBOSE,
)
_TOLD = re.compile(r"(?P<name>[\w.]{1,100})[ ]?\w{0,20}<\|message\|>")
_KEYED = re.compile(r"(?P<name>[\w.:/-]{1,100})\s*(?=<arg_key>|</tool_call>)")
_KEY = re.compile(r"\s*<arg_key>(?P<name>[^<]{1,100})</arg_key>\s*(?:</arg_key>\s*)?<arg_value>")
_HEAD = re.compile(rf"{_ELEMENT}[\"']?(?P<name>[^\"'<>]{{1,100}})[\"']?>", re.IGNORECASE)
_PARAMETER = re.compile(
    r"\s*<(?:antml:|｜DSML｜)?parameter(?:=| name=)[\"']?(?P<name>[^\"'<>=]{1,100})[\"']?(?: [^<>]{0,40})?>\n?"
)
_GEMMA = re.compile(r"call:(?P<name>[\w.:/-]{1,100})(?=\{)")
_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")
_ANY_NAME = re.compile(r"""["'](?:name|tool_name|tool|function)["']\s*:\s*["']([^"']{1,100})["']""")


def _written(
    text: str, tools: Mapping[str, ToolSchema], *, former: bool
) -> tuple[str, list[Written], _BrokenError | None]:
    """Return a text's words, the calls at its end, and a further one that cannot be read."""
    first = _opening(text, 0)
    if first is None:
        return (*_unmarked(text, tools), None)
    words, calls, at, inside = [text[: first.start()]], list[Written](), first.start(), False
    try:
        while at < len(text):
            blank, opened = _BLANK.match(text, at), _OPENS.match(text, at)
            if blank is not None:
                at = blank.end()
            elif opened is not None:
                at, inside = opened.end(), True
                if opened.end() == opened.start():
                    more, at = _element(text, at)
                    calls, inside = [*calls, *more], False
            elif (closed := _CLOSES.match(text, at)) is not None:
                at, inside = closed.end(), False
            elif inside or text[at] == "{":
                more, at = _body(text, at, tools)
                calls, inside = [*calls, *more], False
            elif (further := _opening(text, at)) is not None:
                words.append(text[at : further.start()])
                at = further.start()
            else:
                return text, [], None  # quoted: words go on behind it
    except _BrokenError as exc:
        if not exc.name and not calls and words[-1].rpartition("\n")[2].strip():
            return text, [], None  # words about a mark
        return "".join(words).strip(), calls, exc
    if not calls or (former and not all(name in tools for name, _ in calls)):
        return text, [], None
    return "".join(words).strip(), calls, None


def _opening(text: str, at: int) -> re.Match[str] | None:
    """Return the next mark that opens a call: an element counts at the start of a line, a token of a model anywhere."""
    for mark in filter(None, (_OPENS.match(text, lead.start()) for lead in _LEADS.finditer(text, at))):
        before = text[max(0, mark.start() - _INDENT) : mark.start()]
        start = before.rpartition("\n")[2].strip() == "" and (len(before) < _INDENT or "\n" in before)
        if mark["line"] is None or start or before.endswith(">"):
            return mark
    return None


_INDENT = 40


def _body(text: str, at: int, tools: Mapping[str, ToolSchema]) -> tuple[list[Written], int]:
    """Return the calls that begin at a place behind an opening mark, and where they end."""
    if _HEAD.match(text, at) is not None:
        return _element(text, at)
    if text[at] in "{[":
        try:
            value, end = json_at(text, at)
            if calls := _listed(value, marked=True):
                return calls, end
        except ValueError:
            pass
    elif (named := _NAMED.match(text, at)) is not None and not named["name"].startswith("call:"):
        try:
            value, end = json_at(text, named.end())
        except ValueError:
            end = _end(text, at)
            value = _or_broken(lambda: read_json(text[named.end() : end]), named["name"], text[named.end() :])
        return [(named["name"], value)], end
    elif (keyed := _KEYED.match(text, at)) is not None:
        return _pairs(text, keyed)
    elif (told := _TOLD.match(text, at)) is not None:
        if (closed := _CLOSES.search(text, at)) is None:
            raise _BrokenError(told["name"], text[told.end() :])
        return [(told["name"], text[told.end() : closed.start()])], closed.end()
    end = _end(text, at)
    body = text[at:end].strip()
    if (gemma := _GEMMA.match(body)) is not None:
        return [(gemma["name"], _or_broken(lambda: _gemma(body[gemma.end() :]), gemma["name"], body))], end
    if body[:1] in ("{", "["):
        try:
            if calls := _listed(read_json(body), marked=True):
                return calls, end
        except ValueError:
            pass
    if calls := _pythonic(body, tools):
        return calls, end
    name = _ANY_NAME.search(body, 0, 2_000)
    raise _BrokenError(name[1] if name is not None else "", body)


def _end(text: str, at: int) -> int:
    closed = _CLOSES.search(text, at)
    return closed.start() if closed is not None else len(text)


def _or_broken(read: Callable[[], Any], name: str, text: str) -> Any:
    try:
        return read()
    except ValueError:
        raise _BrokenError(name, text) from None


def _element(text: str, at: int) -> tuple[list[Written], int]:
    """Return the call of `<function=NAME>` or `<invoke name="NAME">`, with parameters, JSON or a text inside."""
    head = _HEAD.match(text, at)
    if head is None:
        raise _BrokenError("", text[at:])
    name, at, given = head["name"].strip(), head.end(), dict[str, JsonValue]()
    while (parameter := _PARAMETER.match(text, at)) is not None:
        stop = _PARAMETER_END.search(text, parameter.end())
        if stop is None:
            raise _BrokenError(name, text[head.end() :])
        given[parameter["name"].strip()] = text[parameter.end() : stop.start()].removesuffix("\n")
        at = stop.end() if stop[0].endswith("parameter>") and stop[0].startswith("</") else stop.start()
    if given:
        return [(name, given)], at
    closed = _ELEMENT_END.search(text, at)
    if closed is None:
        raise _BrokenError(name, text[at:])
    body = text[at : closed.start()].strip()
    return [(name, body or {})], closed.end()


_PARAMETER_END = re.compile(r"</(?:antml:|｜DSML｜)?parameter>|(?=\n<parameter[= ])|(?=\n?</function>)|(?=\n?</invoke>)")
_ELEMENT_END = re.compile(r"</(?:antml:|｜DSML｜)?(?:function|invoke)>", re.IGNORECASE)


def _pairs(text: str, head: re.Match[str]) -> tuple[list[Written], int]:
    at, given = head.end(), dict[str, JsonValue]()
    while (key := _KEY.match(text, at)) is not None:
        end = text.find("</arg_value>", key.end())
        if end < 0:
            raise _BrokenError(head["name"], text[head.end() :])
        given[key["name"].strip()] = text[key.end() : end]
        at = end + len("</arg_value>")
    return [(head["name"], given)], at


def _gemma(body: str) -> Any:
    """Return the object of Gemma's own form, whose keys are bare and whose texts stand between tokens."""
    pieces = re.split(r"<escape>|<\|\"\|>", body)
    quoted = [canonical_json(one) if odd % 2 else _BARE_KEY.sub(r'\1"\2":', one) for odd, one in enumerate(pieces)]
    return read_json("".join(quoted))


_CALLED = re.compile(r"\[?\s*[A-Za-z_][\w.]{0,100}\s*\(")
_MOST_PYTHON = 200_000  # characters of calls in Python that are read


def _pythonic(body: str, tools: Mapping[str, ToolSchema]) -> list[Written]:
    """Return the calls of `[f(a=1), g(2)]`, of `print(f(a=1))`, or of a line for each; none if it is anything else."""
    if _CALLED.match(body) is None or len(body) > _MOST_PYTHON:
        return []
    found: list[Written] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = [one.value for one in ast.parse(body).body if isinstance(one, ast.Expr) or _fail(one)]
            nodes = [each for one in nodes for each in (one.elts if isinstance(one, ast.List | ast.Tuple) else [one])]
            for node in nodes:
                call = node
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "print" and "print" not in tools:
                    (call,) = call.args
                if not isinstance(call, ast.Call):
                    return []
                name = _resolved(ast.unparse(call.func).removesuffix(".call"), tools)
                takes = [*tools[name].parameters.get("properties", {})] if name in tools else []
                given = dict(zip(takes, map(ast.literal_eval, call.args), strict=False))
                given |= {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
                found.append((name, read_json(canonical_json(given))))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []
    return found


def _fail(node: ast.stmt) -> bool:
    raise ValueError(type(node).__name__)


def _unmarked(text: str, tools: Mapping[str, ToolSchema]) -> tuple[str, list[Written]]:
    """Return the words, and the calls of offered tools that end a text without any mark: fenced, or bare."""
    found: list[Written] = []
    end = len(text.rstrip())
    for block in reversed(fenced_blocks(text) if text.rstrip().endswith("```") else []):
        if not block.closed or text[block.end : end].strip():
            break
        inside, more, broken = _written(block.inside, tools, former=False) if block.inside.strip() else ("x", [], None)
        if not more or inside.strip() or broken is not None:
            break
        found, end = [*more, *found], block.start
    if not found:
        begins = _LINE.search(text)
        bare = text[begins.start() :].strip() if begins is not None else text.strip()
        end = begins.start() if begins is not None else 0
        found = _bare(bare, tools) if bare[-1:] in ("}", "]", ")") else []
    if found and all(_resolved(name, tools) in tools for name, _ in found):
        return text[:end].strip(), found
    return text, []


_LINE = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)


def _bare(text: str, tools: Mapping[str, ToolSchema]) -> list[Written]:
    found: list[Written] = []
    at = 0
    try:
        while at < len(text):
            value, at = json_at(text, at)
            if not (more := _listed(value, marked=False)):
                return []
            found += more
            blank = _BLANK.match(text, at)
            at = blank.end() if blank is not None else at
    except ValueError:
        try:
            return _listed(read_json(text), marked=False)
        except ValueError:
            return _pythonic(text, tools)
    return found
