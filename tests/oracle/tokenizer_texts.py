"""Texts that are hard for a tokenizer, and tokenizers that are small: one or more for each part of a file."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SENTENCES = [
    "The quick brown fox jumps over the lazy dog; it's 3,141,592 o'clock — they'll've said \"no\"!\n",
    "In the beginning God created the heaven and the earth.  And the earth was without form, and void.\n\n",
    "Der Fluß trägt größere Schiffe, naïve Café-Gäste und 12½ Übergänge.\r\n",
    "Привет, мир! Съешь же ещё этих мягких французских булок, да выпей чаю. №42\n",
    "我能吞下玻璃而不伤身体。今天是2026年11月27日,星期五。\n",
    "いろはにほへと ちりぬるを 私はガラスを食べられます。それは私を傷つけません。\n",
    "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요\n",
    "أنا قادر على أكل الزجاج و هذا لا يؤلمني. ١٢٣٤٥\n",
    "मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती. १२३\n",
    "def f(x):\n\treturn [i**2 for i in range(10) if i % 2 == 0]  # 0x1F 1e-5\n\n\n    pass\n",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 e\u0301 \u00e9 \ufb01 Å \u212b ſ K 'S 'ſ 'LL Ⅷ ² ٣ １２ \u200b\u200d\ufeff|\n",
]
# Ranges of characters, and characters that engines treat in different ways.
RANGES = [(0x00, 0x7F), (0x80, 0x24F), (0x250, 0x36F), (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0xDFF),
          (0xE00, 0x11FF), (0x1780, 0x1AFF), (0x1E00, 0x20CF), (0x2100, 0x2BFF), (0x3000, 0x30FF),
          (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFDFF),
          (0xFE00, 0xFFEF), (0x10000, 0x10FFF), (0x1D400, 0x1D7FF), (0x1F000, 0x1FAFF), (0x20000, 0x2A6DF)]
SPECIALS = ["\u180e", "\u0085", "\u00a0", "\u2028", "\u3000", "\u1680", "\u017f", "\u212a", "\u0345",
            "\u0301", "\u0327", "\u1100\u1161\u11a8", "\r\n", "\t", "  ", "\n\n\n", "\x00", "\x0b", "\x1c", "'s",
            "'LL", "'ſ", "'re", "123", "٣٤", "½", "Ⅳ", "_", "\u200d", "\ufe0f", "\U0001f1e6", "\ufffd", "▁", "▁▁", "Ġ",
            "<s>", "</s>", "<0x41>", "<|end|>", "<|end|", "|>", "wordy", "<unk>", "İ", "ß", "ẞ"]


def is_old(character: str) -> bool:
    """The library normalizes by the tables of an old Unicode: newer marks combine in it as letters do."""
    is_newer = unicodedata.ucd_3_2_0.category(character) == "Cn"
    return unicodedata.category(character) not in ("Cn", "Cs") and not (
        is_newer and unicodedata.combining(character) != 0)


def hostile_texts(count: int, seed: int = 0) -> list[str]:
    """Random mixtures of sentences, characters of all scripts and special pieces."""
    chosen = random.Random(seed)

    def piece() -> str:
        kind = chosen.random()
        if kind < 0.25:
            sentence = chosen.choice(SENTENCES)
            begin = chosen.randrange(len(sentence))
            return sentence[begin:begin + chosen.randrange(1, 40)]
        if kind < 0.55:
            return chosen.choice(SPECIALS)
        first, last = chosen.choice(RANGES)
        made = (chr(chosen.randint(first, last)) for _ in range(chosen.randrange(1, 6)))
        return "".join(character for character in made if is_old(character))

    return ["".join(piece() for _ in range(chosen.randrange(1, 30))) for _ in range(count)]


def texts(count: int, seed: int = 0) -> list[str]:
    return ["", " ", "  ", "a", *SENTENCES, "".join(SENTENCES), " " * 300, "\n" * 300, "a" * 2000,
            *SPECIALS, *hostile_texts(count, seed)]


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def train(tokenizer: Tokenizer, *, alphabet: list[str] | None = None, special: list[str] | None = None,
          vocabulary: int = 700) -> Tokenizer:
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet or [],
                                  special_tokens=special or ["<|end|>"], show_progress=False)
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    return tokenizer


def byte_level(pre: pre_tokenizers.PreTokenizer, normalizer: normalizers.Normalizer | None = None, *,
               ignore_merges: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, alphabet=pre_tokenizers.ByteLevel.alphabet())


def split_then_bytes(expression: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def llama3() -> Tokenizer:
    tokenizer = byte_level(split_then_bytes(LLAMA3), ignore_merges=True)
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|end|> $A <|end|>", special_tokens=[("<|end|>", 0)])])
    return tokenizer


def llama2() -> Tokenizer:
    bytes_of_text = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return train(tokenizer, special=["<unk>", "<s>", "</s>", *bytes_of_text], vocabulary=900)


def metaspace(scheme: str, split: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", scheme, split)
    tokenizer.decoder = decoders.Metaspace("▁", scheme)
    return train(tokenizer, special=["<unk>", "<s>"])


def unknown(fused: bool, token: str | None = "<unk>") -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token=token, fuse_unk=fused))
    return train(tokenizer, special=["<unk>"], vocabulary=300)


def behavior(name: str, pattern: str | Regex, invert: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(pattern, name, invert)
    return train(tokenizer, special=["<unk>"])


def with_added_tokens() -> Tokenizer:
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.NFC())
    tokenizer.add_special_tokens([AddedToken("<s>", lstrip=True, rstrip=False, normalized=False),
                                  AddedToken("</s>", rstrip=True, lstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("word", single_word=True), AddedToken("é", normalized=True),
                          AddedToken("<|end|>|", normalized=False), AddedToken("▁▁", normalized=False),
                          AddedToken("'s", normalized=True, rstrip=True), AddedToken("the", single_word=True,
                                                                                    lstrip=True)])
    return tokenizer


def normalized_tokens() -> Tokenizer:
    tokenizer = llama2()
    tokenizer.add_tokens([AddedToken("<|end|>", normalized=True), AddedToken("</s>", normalized=False, rstrip=True)])
    return tokenizer


def replacing(pattern: str | Regex) -> Tokenizer:
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.Replace(pattern, "~a~"))


MADE: dict[str, Callable[[], Tokenizer]] = {
    "gpt2": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "gpt2 with a space before": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "bytes without words": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)),
    "smollm2": lambda: byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
    "groups of digits": lambda: byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.ByteLevel(add_prefix_space=True)])),
    "llama3": llama3,
    "qwen3": lambda: byte_level(split_then_bytes(LLAMA3), normalizers.NFC()),
    "gpt-oss": lambda: byte_level(split_then_bytes(O200K)),
    "llama2": llama2,
    "llama2 with normalized tokens": normalized_tokens,
    "added tokens": with_added_tokens,
    "replace a text": lambda: replacing("e"),
    "replace an expression": lambda: replacing(Regex(r"\s{2,}|[aeiou]\u0301")),
    "unknown": lambda: unknown(False),
    "fused unknown": lambda: unknown(True),
    "no unknown": lambda: unknown(False, None),
    **{f"metaspace {scheme} {split}": lambda scheme=scheme, split=split: metaspace(scheme, split)
       for scheme in ("always", "first", "never") for split in (True, False)},
    **{f"split {name} {kind} {invert}": lambda name=name, pattern=pattern, invert=invert: behavior(
        name, pattern, invert)
       for name in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
       for kind, pattern in (("text", "e"), ("expression", Regex(r"\s+|\p{Lu}|(?=\d)")))
       for invert in (False, True)},
}
