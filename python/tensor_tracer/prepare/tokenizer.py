"""The folder of a tokenizer in Hugging Face's format: tokenizer.json, tokenizer_config.json and a chat template."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensor_tracer.errors import missing_package, wrong
from tensor_tracer.prepare.template import ChatTemplate

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class FolderTokenizer:
    """`end_token` ends a text; it is the only token of `eos_token`. `template` is None if the folder has none."""

    def __init__(self, folder: Path) -> None:
        file = folder / "tokenizer.json"
        content = _read(file)
        self.folder = folder
        settings = _object_in(folder / "tokenizer_config.json")
        names = {name: _text_of(settings.get(name)) for name in _SPECIAL}
        special_tokens = {name: text for name, text in names.items() if text}
        self._tokenizer, added = _tokenizer_of(content, file)
        self.vocab_size = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        if self.vocab_size == 0:
            raise wrong("it has no token", where=str(file))
        self.end_token = self._only_id(special_tokens.get("eos_token", ""))
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.special_ids = sorted(added.values())
        ends = sorted({*added, *special_tokens.values()}, key=len, reverse=True)
        self.special_token = re.compile("|".join(map(re.escape, ends)) or "(?!)")
        self.template = _template_of(folder, settings, special_tokens)

    def encode(self, texts: Sequence[str]) -> list[Any]:
        """An `Encoding` of each text, without the tokens that a template of the tokenizer would add."""
        encodings: list[Any] = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return encodings

    def _only_id(self, text: str) -> int | None:
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return int(ids[0]) if len(ids) == 1 else None


def _tokenizer_of(content: bytes, file: Path) -> tuple[Any, dict[str, int]]:
    """The tokenizer, and the ids of its special tokens. A post-processor would cut white space from the offsets; it
    changes no id as long as no special token is added."""
    try:
        from tokenizers import Tokenizer  # type: ignore[import-untyped]
    except ImportError:
        raise missing_package("tokenizers", "a tokenizer.json") from None
    whole = _parsed(content, file) | {"post_processor": None, "truncation": None, "padding": None}
    try:
        tokenizer = Tokenizer.from_str(json.dumps(whole))
    except Exception as error:  # the library raises no narrower class
        raise wrong(f"it is no tokenizer: {error}", where=str(file)) from None
    added = tokenizer.get_added_tokens_decoder()
    return tokenizer, {token.content: number for number, token in added.items() if token.special}


def _template_of(folder: Path, settings: dict[str, Any], special_tokens: dict[str, str]) -> ChatTemplate | None:
    """A separate file comes first, as in `transformers`."""
    alone, old = folder / "chat_template.jinja", folder / "chat_template.json"
    template, file = settings.get("chat_template"), folder / "tokenizer_config.json"
    if alone.is_file():
        template, file = _read(alone).decode(errors="replace"), alone
    elif template is None and old.is_file():
        template, file = _object_in(old).get("chat_template"), old
    if isinstance(template, list):
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("default", "")
    if template is None:
        return None
    if not isinstance(template, str) or not template:
        raise wrong('its chat_template is no text, and no list with the name "default"', where=str(file))
    extra = settings.get("additional_special_tokens")
    others = [_text_of(one) for one in extra] if isinstance(extra, list) else []
    return ChatTemplate(template, special_tokens | {"additional_special_tokens": others}, str(file))


def _text_of(token: Any) -> str:
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else ""


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        remedy = "give --tokenizer a folder of Hugging Face with a tokenizer.json"
        raise wrong(f"it cannot be read: {error.strerror}", remedy, str(file)) from None


def _object_in(file: Path) -> dict[str, Any]:
    """Empty if there is no such file."""
    return _parsed(_read(file), file) if file.is_file() else {}


def _parsed(content: bytes, file: Path) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise wrong(f"it is not JSON: {error}", where=str(file)) from None
    if not isinstance(value, dict):
        raise wrong("it is no JSON object", where=str(file))
    return value
