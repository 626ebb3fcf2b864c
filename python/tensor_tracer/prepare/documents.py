"""What each line becomes: one text, and which of its characters have which role."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_tracer.errors import TensorTracerError, wrong
from tensor_tracer.prepare.lines import ROLES, Line
from tensor_tracer.prepare.template import ChatTemplate, Message
from tensor_tracer.prepare.tokenizer import FolderTokenizer

_PROBE = f"probe{secrets.token_hex(8)}"  # stands for the content of a message
_ASSISTANT = ROLES.index("assistant")
Span = tuple[int, int, int]  # first character, one past the last, role


@dataclasses.dataclass(frozen=True)
class Document:
    """`end_role`: the role of the end token that follows; None: the text ends itself, or there is no such token."""

    text: str
    spans: list[Span]
    end_role: int | None = None


class Documents:
    """Errors name the line. `keeps_rewritten`: a turn that the template writes differently once more messages follow
    gets the role none; else its line is refused."""

    def __init__(self, tokenizer: FolderTokenizer, keeps_rewritten: bool) -> None:
        self._tokenizer, self._keeps_rewritten = tokenizer, keeps_rewritten

    def document(self, line: Line) -> Document:
        try:
            made = self._document(line.kind, line.fields)
            made.text.encode()
        except TensorTracerError as error:
            raise wrong(error.message, error.remedy, line.where) from None
        except UnicodeEncodeError as error:
            raise wrong(f"its text is not Unicode: {error.reason}", where=line.where) from None
        return made

    def _document(self, kind: str, fields: dict[str, Any]) -> Document:
        template, has_end = self._tokenizer.template, self._tokenizer.end_token is not None
        if kind == "text":
            text = fields["text"]
            return Document(text, [(0, len(text), _ASSISTANT)], _ASSISTANT if has_end else None)
        if template is None and kind == "prompt":
            prompt, text = fields["prompt"], fields["prompt"] + fields["response"]
            spans = [(0, len(prompt), ROLES.index("user")), (len(prompt), len(text), _ASSISTANT)]
            return Document(text, spans, _ASSISTANT if has_end else None)
        if template is None:
            remedy = "add chat_template.jinja"
            raise wrong(f"the tokenizer {self._tokenizer.folder} has no chat template for messages", remedy)
        messages = fields["messages"] if kind == "messages" else [
            {"role": "user", "content": fields["prompt"]}, {"role": "assistant", "content": fields["response"]}
        ]  # fmt: skip
        conversation = Conversation(template, messages, fields.get("tools"), self._tokenizer.special_token)
        return Document(conversation.whole.text, conversation.spans(self._keeps_rewritten))


class Conversation:
    """A conversation as its template writes it. A message's place is found by writing the conversation once more with
    a probe in its place."""

    def __init__(self, template: ChatTemplate, messages: Sequence[Message], tools: list[Any] | None,
                 special_token: re.Pattern[str]) -> None:  # fmt: skip
        self._template, self._messages, self._tools = template, messages, tools
        self._special_token = special_token
        self.whole = template.render(messages, tools)

    def spans(self, keeps_rewritten: bool) -> list[Span]:
        """Those of the assistant come last: where spans meet in a token, they win."""
        others = [(*self._content(at), ROLES.index(message["role"])) for at, message in enumerate(self._messages)
                  if message["role"] != "assistant" and message["content"]]
        turns = self.whole.generated if self._template.marks_generation else self._turns(keeps_rewritten)
        if not turns:
            raise wrong("the chat template leaves nothing that the assistant would say")
        spans = others + [(first, last, _ASSISTANT) for first, last in turns]
        return [span for span in spans if span[0] < span[1]]

    def _content(self, at: int) -> tuple[int, int]:
        """Where the content of a message stands; (0, 0) if the template leaves it out."""
        parts = self._around_probe(self._messages, at, self._messages[at])
        if parts is None:
            return 0, 0
        before, after = parts
        text, last = self.whole.text, len(self.whole.text) - len(after)
        if not text.startswith(before) or not text.endswith(after) or last < len(before):
            raise wrong(f"message {at + 1}: the chat template writes other messages differently for its content")
        return len(before), last

    def _around_probe(self, messages: Sequence[Message], at: int, message: Message) -> tuple[str, str] | None:
        """The texts before and behind the content of this message, which stands for the one at `at`."""
        probed = [*messages[:at], message | {"content": _PROBE}, *messages[at + 1 :]]
        before, found, after = self._template.render(probed, self._tools).text.partition(_PROBE)
        if _PROBE in after:
            raise wrong(f"message {at + 1}: the chat template writes it twice")
        return (before, after) if found else None

    def _turns(self, keeps_rewritten: bool) -> list[tuple[int, int]]:
        turns = []
        for at, message in enumerate(self._messages):
            if message["role"] != "assistant":
                continue
            turn = self._turn(at)
            if turn is not None:
                turns.append(turn)
            elif not keeps_rewritten:
                raise wrong(
                    f"message {at + 1}: the chat template writes it or what is before it differently once the rest follows",
                    "end the conversation there, or give --rewritten-turns none",
                )
        return turns

    def _turn(self, at: int) -> tuple[int, int] | None:
        """From the end of the generation prompt to the end of the end-of-turn token: the first special token behind a
        plain content. None: not as the model would see and write it."""
        before = self._template.render(self._messages[:at], self._tools, prompt=True).text
        here = self._template.render(self._messages[: at + 1], self._tools).text
        parts = self._around_probe(self._messages[: at + 1], at, {"role": "assistant"})
        if parts is None or not here.endswith(parts[1]):
            raise wrong(f"message {at + 1}: the chat template does not write its content")
        end_of_turn = self._special_token.search(parts[1])
        last = len(here) - len(parts[1]) + (end_of_turn.end() if end_of_turn else 0)
        if last <= len(before) or not here.startswith(before) or not self.whole.text.startswith(here[:last]):
            return None
        return len(before), last


def roles_of(encoding: Any, spans: Sequence[Span], special_ids: Sequence[int]) -> NDArray[np.uint8]:
    """The role of each token, by its offsets. A token that reaches into two spans has the role of the later one in the
    list; a special token, which may take white space along, has the role of its first character."""
    offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
    first, last = offsets[:, 0], np.maximum(offsets[:, 1], offsets[:, 0] + 1)
    last = np.where(np.isin(encoding.ids, special_ids), first + 1, last)
    roles = np.zeros(len(offsets), np.uint8)
    for begin, end, role in spans:
        roles[(first < end) & (last > begin)] = role
    return roles
