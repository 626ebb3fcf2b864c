"""Chat templates: programs in the language of Jinja that write a conversation as one text.

The environment is that of `transformers`: a sandbox, blocks without their line ends, and the helpers that templates of
published models call. A template may put what the assistant says between `{% generation %}` and `{% endgeneration %}`.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import json
import re
import secrets
from collections.abc import Sequence
from typing import Any

from tensor_tracer.errors import missing_package, wrong

Message = dict[str, Any]
_NONCE = secrets.token_hex(8)
_BEGIN, _END = f"<begin {_NONCE}>", f"<end {_NONCE}>"  # no text of the input holds them


@dataclasses.dataclass(frozen=True)
class Rendered:
    """A conversation as text. `generated`: the characters between the tags of a generation, first to one past last."""

    text: str
    generated: list[tuple[int, int]]


class ChatTemplate:
    """A template and the special tokens that it may name, such as `bos_token`."""

    def __init__(self, source: str, special_tokens: dict[str, Any], where: str) -> None:
        self.sha256 = hashlib.sha256(source.encode()).hexdigest()
        self.marks_generation = re.search(r"\{%-?\s*generation\s*-?%\}", source) is not None
        self._special_tokens = special_tokens
        environment = _environment()
        try:
            self._template = environment.from_string(source)
        except Exception as error:
            raise wrong(f"the chat template cannot be read: {error}", where=where) from None

    def render(self, messages: Sequence[Message], tools: list[Any] | None, prompt: bool = False) -> Rendered:
        """`prompt`: with the generation prompt. Raises TensorTracerError with the words of the template."""
        values = self._special_tokens | {"messages": list(messages), "tools": tools, "documents": None,
                                         "add_generation_prompt": prompt}  # fmt: skip
        try:
            marked = self._template.render(values)
        except Exception as error:  # a template is a program: anything may go wrong in it
            raise wrong(f"the chat template refuses it: {error}") from None
        return _without_marks(marked)


def _without_marks(marked: str) -> Rendered:
    parts: list[str] = []
    generated, length, begin = [], 0, 0
    for part in re.split(f"({_BEGIN}|{_END})", marked):
        if part == _BEGIN:
            begin = length
        elif part == _END:
            generated.append((begin, length))
        else:
            parts.append(part)
            length += len(part)
    return Rendered("".join(parts), [span for span in generated if span[0] < span[1]])


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None,
             separators: tuple[str, str] | None = None, sort_keys: bool = False) -> str:  # fmt: skip
    """Jinja's own filter would escape the characters of HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@functools.cache
def _environment() -> Any:
    try:
        import jinja2
        from jinja2 import ext, nodes, parser, sandbox
    except ImportError:
        raise missing_package("jinja2", "a chat template") from None

    class Generation(ext.Extension):
        tags = {"generation"}

        def parse(self, parser: parser.Parser) -> list[nodes.Node]:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            begin, end = (nodes.Output([nodes.TemplateData(mark)], lineno=line) for mark in (_BEGIN, _END))
            return [begin, nodes.Scope(body, lineno=line), end]

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = datetime.datetime.now().strftime  # one time for all lines
    return environment
