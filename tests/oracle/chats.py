"""Small tokenizers with chat templates in the styles of published models, and conversations that are hard to cut."""

from __future__ import annotations

import functools
import json
import random
import re
from pathlib import Path
from typing import Any

from tokenizer_texts import SENTENCES
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

# Each assistant turn stands in a generation, which `plain` takes out again.
CHATML = """{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}
{%- generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}
{%- else %}{{ message.content + '<|im_end|>' }}{% endif %}
{{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
LLAMA3 = """{{- bos_token }}
{%- if tools %}{{ '<|head|>tools<|/head|>\\n\\n' + tools | tojson + '<|im_end|>' }}{% endif %}
{%- for message in messages %}
    {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' }}
    {%- if message['role'] == 'assistant' %}
        {%- generation %}{{ message['content'] | trim + '<|im_end|>' }}{% endgeneration %}
    {%- else %}
        {{- message['content'] | trim + '<|im_end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|head|>assistant<|/head|>\\n\\n' }}{% endif %}"""
MISTRAL = """{%- if messages[0]['role'] == 'system' %}
    {%- set start = messages[0]['content'] + '\\n\\n' %}{% set turns = messages[1:] %}
{%- else %}
    {%- set start = '' %}{% set turns = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in turns %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate user/assistant') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {{- '[INST] ' + (start if loop.first else '') + message['content'] + ' [/INST]' }}
    {%- else %}
        {%- generation %}{{ ' ' + message['content'] + eos_token }}{% endgeneration %}
    {%- endif %}
{%- endfor %}"""
# As Qwen3's: thoughts are kept in the last turn only, which has an empty thought otherwise.
THINKING = """{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}
    {%- set parts = message.content.split('</think>') %}
    {%- if loop.last %}
        {{- (parts[0] + '</think>' if parts | length > 1 else '<think>\\n\\n</think>\\n\\n') }}
    {%- endif %}
    {{- parts[-1] }}
{%- else %}{{ message.content }}{% endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
MARKED = {"chatml": CHATML, "llama-3": LLAMA3, "mistral": MISTRAL}
SPECIAL = ["<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>", "<|head|>", "<|/head|>", "<think>", "</think>"]
SETTINGS = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>",
            "eos_token": {"__type": "AddedToken", "content": "<|end|>", "special": True}}  # fmt: skip


def plain(template: str) -> str:
    return re.sub(r"\s*{%- generation %}|{% endgeneration %}", "", template)


@functools.cache
def tokenizer_of(style: str) -> Tokenizer:
    """Byte-level BPE; for "mistral" with white space as part of the words, as SentencePiece has it."""
    made = Tokenizer(models.BPE(byte_fallback=style == "mistral", unk_token="<unk>" if style == "mistral" else None))
    if style == "mistral":
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        alphabet = []
    else:
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [AddedToken(token, normalized=False) for token in ["<unk>", *SPECIAL]]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=special, show_progress=False, initial_alphabet=alphabet)
    made.train_from_iterator([*SENTENCES, "user\n\n system assistant\n\n [INST] [/INST] " * 9], trainer)
    made.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 1)])
    return made


def write_folder(folder: Path, style: str, template: str | None, **settings: Any) -> Path:
    folder.mkdir(parents=True)
    tokenizer_of(style).save(str(folder / "tokenizer.json"))
    chat = {} if template is None else {"chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS | chat | settings))
    return folder


def conversations(count: int, has_tools: bool = False) -> list[list[dict[str, str]]]:
    """Of one to four turns, in eleven scripts, some with a system prompt, white space at their ends, names of special
    tokens, and texts that repeat their header or each other."""
    dice = random.Random(5)
    hard = ["user", "assistant", "Yes.", "\n\nyes", "  two spaces  ", "👩‍👩‍👧‍👦", "\n", "a <|im_end|> in the text",
            "system\n", "x" * 300]  # fmt: skip
    made = []
    for number in range(count):
        def text() -> str:
            return dice.choice(hard) if dice.random() < 0.4 else dice.choice(SENTENCES).strip()[: dice.randint(3, 80)]
        messages = [{"role": "system", "content": text()}] if number % 3 == 0 else []
        for _ in range(dice.randint(1, 4)):
            messages += [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]
            if has_tools and number % 4 == 0:
                messages += [{"role": "tool", "content": '{"sum": 4}'}, {"role": "assistant", "content": text()}]
        made.append(messages)
    return made
