"""Prompts that came from elsewhere must be plain: text with variables, conditions and loops over what is given.

A template's language cannot reach the machine (it runs in Jinja's sandbox), but it can take any time and memory: loops
in loops, texts that double. Whoever replays a stranger's run renders a stranger's templates, so they may use only what
ends soon whatever it says.
"""

from __future__ import annotations

from agentorchestra.core.errors import PromptError
from agentorchestra.tea.prompts.prompt import parse_prompt

MAX_CHARS = 256 * 1024  # of the text of a prompt that came from elsewhere
_MAX_LOOPS = 50

_NODES = frozenset(
    {
        *("Template", "Output", "TemplateData", "Name", "Getattr", "Getitem", "Slice", "If", "For", "Const", "Compare"),
        *("Operand", "And", "Or", "Not", "CondExpr", "Filter", "Test", "Tuple", "List", "Neg", "Pos", "Add", "Sub"),
    }
)
_FILTERS = frozenset(
    {
        *("join", "trim", "length", "count", "upper", "lower", "capitalize", "default", "d", "first", "last"),
        *("int", "string", "abs", "escape", "e", "tojson", "unique"),
    }
)


def check_plain(text: str, name: str) -> None:
    """Raise PromptError for a template that could take more than a few passes over what it is given."""
    from jinja2 import TemplateSyntaxError, nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if len(text) > MAX_CHARS:
        raise _refusal(name, f"it has {len(text):,} characters")
    loops = 0

    def walk(node: nodes.Node, loop_variables: frozenset[str] | None) -> None:
        nonlocal loops
        kind = type(node).__name__
        if kind not in _NODES:
            raise _refusal(name, f"it uses {kind}")
        if isinstance(node, nodes.Filter) and node.name not in _FILTERS:
            raise _refusal(name, f"it uses the filter {node.name!r}")
        if isinstance(node, nodes.For):
            loops += 1
            inner = loop_variables is not None and _root(node.iter) in loop_variables
            if loops > _MAX_LOOPS or node.recursive or (loop_variables is not None and not inner):
                raise _refusal(name, "its loops may go over everything for everything")
            targets = frozenset(leaf.name for leaf in node.target.find_all(nodes.Name)) | _own_name(node.target)
            for child in node.iter_child_nodes():
                walk(child, targets if child in node.body else loop_variables)
            return
        for child in node.iter_child_nodes():
            walk(child, loop_variables)

    def _root(node: nodes.Node) -> str:
        while isinstance(node, nodes.Getattr | nodes.Getitem):
            node = node.node
        return node.name if isinstance(node, nodes.Name) else ""

    def _own_name(node: nodes.Node) -> frozenset[str]:
        return frozenset({node.name}) if isinstance(node, nodes.Name) else frozenset()

    try:
        walk(ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).parse(text), None)
        parse_prompt(text, label=f"the prompt {name!r}")
    except TemplateSyntaxError as exc:
        raise _refusal(name, f"it is no template ({exc.message})") from None
    except RecursionError:
        raise _refusal(name, "it is nested too deeply") from None


def _refusal(name: str, reason: str) -> PromptError:
    return PromptError(
        f"the prompt {name!r} came with an imported run and is not used: {reason}, which could take any time; the run "
        "cannot be replayed or resumed here"
    )
