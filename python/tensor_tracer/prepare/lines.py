"""The lines of a JSONL file, one by one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tensor_tracer.errors import TensorTracerError, wrong
from tensor_tracer.prepare.template import Message

ROLES = ("none", "system", "user", "assistant", "tool")
MAX_LINE = 64 << 20  # bytes
_KINDS = {"messages": ("messages",), "prompt": ("prompt", "response"), "text": ("text",)}
_KNOWN = 'a line has "messages", or "prompt" and "response", or "text"'


@dataclasses.dataclass(frozen=True)
class Line:
    """`kind`: "messages", "prompt" or "text"; its fields are there, texts are not empty, messages are of known roles."""

    where: str
    kind: str
    fields: dict[str, Any]


class InputLines:
    """Errors name file and line. Blank lines are passed over. `read` counts bytes; `sha256` is of the lines so far."""

    def __init__(self, path: Path) -> None:
        self.path, self.read = path, 0
        self._hash = hashlib.sha256()
        self._kind = ""

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Line]:
        with self.path.open("rb") as file:
            for number, raw in enumerate(self._raw(file), 1):
                if raw.strip():
                    yield self._line(f"{self.path}, line {number}", raw)
        if not self._kind:
            raise wrong("the file has no line", _KNOWN, str(self.path))

    def _raw(self, file: BinaryIO) -> Iterator[bytes]:
        while raw := file.readline(MAX_LINE + 1):
            self._hash.update(raw)
            self.read += len(raw)
            yield raw

    def _line(self, where: str, raw: bytes) -> Line:
        if len(raw) > MAX_LINE:
            raise wrong(f"the line is longer than {MAX_LINE >> 20} MiB", "cut it into several", where)
        try:
            fields = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise wrong(f"it is not JSON: {error}", where=where) from None
        try:
            kind = _kind_of(fields)
            if self._kind not in ("", kind):
                message = f'the line has "{kind}", and the lines before it have "{self._kind}"'
                raise wrong(message, "write each form to a separate file")
            self._kind = kind
            _check(kind, fields)
        except TensorTracerError as error:
            raise wrong(error.message, error.remedy, where) from None
        return Line(where, kind, fields)


def _kind_of(fields: Any) -> str:
    if not isinstance(fields, dict):
        raise wrong("it is no JSON object", _KNOWN)
    for kind, names in _KINDS.items():
        if all(name in fields for name in names):
            return kind
    missing = [name for name in _KINDS["prompt"] if name not in fields]
    raise wrong("it has no field of these" if len(missing) == 2 else f'the field "{missing[0]}" is missing', _KNOWN)


def _check(kind: str, fields: dict[str, Any]) -> None:
    if kind == "messages":
        _check_messages(fields["messages"], fields.get("tools"))
        return
    for name in _KINDS[kind]:
        if not isinstance(fields[name], str):
            raise wrong(f'"{name}" is no text')
        if not fields[name]:
            raise wrong(f'"{name}" is empty')


def _check_messages(messages: Any, tools: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise wrong('"messages" is no list' if not isinstance(messages, list) else '"messages" is empty')
    if tools is not None and not isinstance(tools, list):
        raise wrong('"tools" is no list')
    for number, message in enumerate(messages, 1):
        problem = _problem_of(message)
        if problem:
            raise wrong(f"message {number} {problem}")
    if all(message["role"] != "assistant" for message in messages):
        raise wrong("no message has the role assistant", "nothing in it could be learned")


def _problem_of(message: Message | Any) -> str:
    """Empty if the message is good. System and tool may say nothing, and so may an assistant that calls a tool."""
    if not isinstance(message, dict):
        return "is no JSON object"
    if "role" not in message:
        return "has no role"
    role, content = message["role"], message.get("content")
    if role not in ROLES[1:]:
        return f"has the role {json.dumps(role)}; known are {', '.join(ROLES[1:])}"
    if content is None and message.get("tool_calls"):
        return ""
    if not isinstance(content, str):
        return "has no content" if content is None else "has a content that is no text"
    may_be_empty = role in ("system", "tool") or message.get("tool_calls")
    return "" if content or may_be_empty else "is empty"
