"""The stored form of effects: model requests as a hash chain, tool schemas once per run.

A request of step 300 repeats the messages of step 299. Its stored form names the longest prefix that the run already
holds and gives only the messages appended to it, so a run's log grows linearly with its length.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.effects import Effect, Mode, Provenance
from agentorchestra.core.errors import StoreError
from agentorchestra.core.ids import copy_json, sha256_text
from agentorchestra.core.messages import Message, ModelRequest, ModelSettings, ToolSchema


class EffectCodec:
    """Encodes and decodes the effects of one run; knows which chain heads and schemas the log holds.

    Encoding and appending must happen in the same order: a later effect may refer to what an earlier one stored.
    """

    def __init__(self) -> None:
        self._links: dict[str, tuple[str, tuple[Message, ...]]] = {}
        self._heads: set[str] = set()
        self._schemas: dict[str, ToolSchema] = {}
        self._provenance: tuple[tuple[Provenance, ...], list[dict[str, Any]]] = ((), [])

    def encode(self, effect: Effect) -> dict[str, JsonValue]:
        body: dict[str, Any] = {"kind": effect.kind._value_, "component": effect.component}
        # What `model_dump` gives, written out: it is done twice for every effect of every run.
        if effect.content_hash:
            body["content_hash"] = effect.content_hash
        if effect.arguments:
            body["arguments"] = copy_json(effect.arguments)
        if effect.mode is not Mode.ONCE:
            body["mode"] = effect.mode._value_
        if effect.tags:
            body["tags"] = sorted(tag.value for tag in effect.tags)
        if effect.role:
            body["role"] = effect.role
        if effect.purpose:
            body["purpose"] = effect.purpose
        if effect.provenance:
            body["provenance"] = self._encode_provenance(effect.provenance)
        if effect.instance is not None:
            body["instance"] = effect.instance
        if effect.world != "main":
            body["world"] = effect.world
        if effect.invalid is not None:
            body["invalid"] = effect.invalid
        if effect.timeout_s is not None:
            body["timeout_s"] = effect.timeout_s
        if effect.confined:
            body["confined"] = True
        if effect.approval != "policy":
            body["approval"] = effect.approval
        if effect.repaired:
            body["repaired"] = effect.repaired
        if effect.request is not None:
            body["request"] = self._encode_request(effect.request)
        return body

    def lean_body(self, body: dict[str, Any], effect: Effect) -> dict[str, Any]:
        """Return what the driving process keeps of a stored effect: its messages are here already."""
        if effect.request is None:
            return body
        request = {name: body["request"][name] for name in ("model", "tools", "settings") if name in body["request"]}
        return {**body, "request": {**request, "head": effect.request.chain[-1] if effect.request.chain else ""}}

    def _encode_provenance(self, provenance: tuple[Provenance, ...]) -> list[dict[str, Any]]:
        """Return the sources as JSON; most often those of the effect before, so one list serves both."""
        if provenance != self._provenance[0]:
            self._provenance = (provenance, [p.model_dump(mode="json", exclude_defaults=True) for p in provenance])
        return self._provenance[1]

    def _encode_request(self, request: ModelRequest) -> dict[str, JsonValue]:
        chain = request.chain
        length = len(chain)
        while length and chain[length - 1] not in self._heads:
            length -= 1
        prefix = chain[length - 1] if length else ""
        tail = request.messages[length:]
        if tail:
            self._links[chain[-1]] = (prefix, tail)
            self._heads.update(chain[length:])
        new = {tool.digest: tool for tool in request.tools if tool.digest not in self._schemas}
        self._schemas.update(new)
        body: dict[str, Any] = {
            "model": request.model,
            "prefix": prefix,
            "appended": [m.model_dump(mode="json", exclude_defaults=True) | {"role": m.role} for m in tail],
        }
        if request.tools:
            body["tools"] = [tool.digest for tool in request.tools]
        if new:
            schemas = {digest: tool.model_dump(mode="json", exclude_defaults=True) for digest, tool in new.items()}
            body["schemas"] = schemas
        settings = request.settings.model_dump(mode="json", exclude_defaults=True)
        if settings:
            body["settings"] = settings
        return body

    def learn(self, body: dict[str, Any]) -> None:
        """Take note of what a stored effect added to the log (on load, in sequence)."""
        request = body.get("request")
        if not request:
            return
        head = request.get("prefix", "")
        messages = tuple(Message.model_validate(m) for m in request.get("appended", ()))
        prefix = head
        for message in messages:
            head = sha256_text(head + message.digest)
            self._heads.add(head)
        if messages:
            self._links[head] = (prefix, messages)
        for digest, schema in request.get("schemas", {}).items():
            self._schemas[digest] = ToolSchema.model_validate(schema)

    def decode(self, body: dict[str, Any]) -> Effect:
        """Return the effect of a stored form encoded or learned here; StoreError if the log lacks a part of it."""
        rest = {key: value for key, value in body.items() if key != "request"}
        fields = body.get("request")
        request = None
        if fields:
            tail = tuple(Message.model_validate(m) for m in fields.get("appended", ()))
            request = ModelRequest(
                model=fields["model"],
                messages=self._messages(fields.get("head") or fields.get("prefix", "")) + tail,
                tools=tuple(self._schema(digest) for digest in fields.get("tools", ())),
                settings=ModelSettings.model_validate(fields.get("settings", {})),
            )
        return Effect.model_validate({**rest, "request": request})

    def schemas(self) -> dict[str, ToolSchema]:
        by_name: dict[str, ToolSchema] = {}
        for schema in self._schemas.values():
            by_name.setdefault(schema.name, schema)
        return by_name

    def words_of(self, name: str) -> set[str]:
        """Return the words in what models were told of the tools with a name."""
        descriptions = (schema.description for schema in self._schemas.values() if schema.name == name)
        return {word for text in descriptions for word in re.findall(r"\w+", text)}

    def _schema(self, digest: str) -> ToolSchema:
        try:
            return self._schemas[digest]
        except KeyError:
            raise StoreError(
                f"the log lacks the tool schema {digest[:12]}; restore the workspace from a backup"
            ) from None

    def _messages(self, head: str) -> tuple[Message, ...]:
        parts: list[tuple[Message, ...]] = []
        while head:
            link = self._find(head)
            if link is None:
                raise StoreError(f"the log lacks the messages up to {head[:12]}; restore the workspace from a backup")
            prefix, messages = link
            parts.append(messages)
            head = prefix
        return tuple(message for part in reversed(parts) for message in part)

    def _find(self, head: str) -> tuple[str, tuple[Message, ...]] | None:
        direct = self._links.get(head)
        if direct is not None:
            return direct
        # A prefix may end inside an appended run of messages (a shorter request came later).
        for prefix, messages in self._links.values():
            walk = prefix
            for count, message in enumerate(messages, start=1):
                walk = sha256_text(walk + message.digest)
                if walk == head:
                    self._links[head] = (prefix, messages[:count])
                    return self._links[head]
        return None
