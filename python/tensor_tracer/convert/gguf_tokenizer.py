"""Writes the tokenizer of a GGUF file as tokenizer.json and tokenizer_config.json.

A GGUF file has vocabulary and merges, and only a name for the way in which a text is split.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tensor_tracer.convert.gguf_model import GgufModel
from tensor_tracer.errors import wrong

_CONTROL, _USER_DEFINED = 3, 4  # kinds of a token in the file

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "gpt-2": _BYTE_LEVEL,
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTE_LEVEL]},
}


def write_tokenizer(model: GgufModel, folder: Path) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_of(model), indent=1, ensure_ascii=False) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(_config_of(model), indent=2, ensure_ascii=False) + "\n")


def tokenizer_of(model: GgufModel) -> dict[str, Any]:
    """The content of tokenizer.json."""
    kind, split = model.setting("tokenizer.ggml.model"), model.setting("tokenizer.ggml.pre", "")
    if kind != "gpt2" or split not in _PRE_TOKENIZERS:
        known = ", ".join(sorted(_PRE_TOKENIZERS))
        message = f'the tokenizer "{kind}" with the split "{split}" is unknown; gpt2 with {known} is known'
        raise wrong(message, "take tokenizer.json from the model's authors", str(model.path))
    tokens = model.setting("tokenizer.ggml.tokens")
    kinds = model.setting("tokenizer.ggml.token_type")
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [_added(number, token, kind) for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
                         if kind in (_CONTROL, _USER_DEFINED)],
        "normalizer": None,
        "pre_tokenizer": _PRE_TOKENIZERS[split],
        "post_processor": None,
        "decoder": _BYTE_LEVEL,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: number for number, token in enumerate(tokens)},
                  "merges": model.setting("tokenizer.ggml.merges")},
    }  # fmt: skip


def _added(number: int, token: str, kind: int) -> dict[str, Any]:
    return {"id": number, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": kind == _CONTROL}  # fmt: skip


def _config_of(model: GgufModel) -> dict[str, Any]:
    tokens = model.setting("tokenizer.ggml.tokens")
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
                              "model_max_length": int(model.setting("llama.context_length"))}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        number = model.setting(f"tokenizer.ggml.{key}_token_id", -1)
        if number >= 0:
            config[f"{name}_token"] = tokens[number]
    template = model.setting("tokenizer.chat_template", "-")
    return config | ({"chat_template": template} if template != "-" else {})
