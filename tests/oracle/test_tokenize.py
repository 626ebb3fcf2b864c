"""The reader of tokenizer.json against the library `tokenizers`: small tokenizers of each part, and real ones."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from program import binary
from real_tokenizers import REAL, chunks, tokenizer_file
from tokenizer_texts import MADE, texts
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

HOSTILE_TEXTS = 150


class Probe:
    """Our reader with one file."""

    def __init__(self, file: Path) -> None:
        self.line = [str(binary("tokenize_probe")), str(file)]

    def ask(self, questions: list[dict[str, Any]]) -> list[Any]:
        asked = "".join(json.dumps(one) + "\n" for one in questions)
        done = subprocess.run(self.line, input=asked.encode(), capture_output=True, timeout=300, check=False)
        answers = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
        assert len(answers) == len(questions) + 1, (answers[:1], done.stderr)
        return answers[1:]

    def refusal(self) -> str:
        done = subprocess.run(self.line, input=b"", capture_output=True, timeout=60, check=False)
        assert done.returncode == 1, done.stdout
        return str(json.loads(done.stdout)["error"])


@pytest.fixture(scope="module", params=MADE)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tokenizer]:
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    MADE[request.param]().save(str(file))
    return file, Tokenizer.from_file(str(file))


def test_ids_are_those_of_the_library(made: tuple[Path, Tokenizer]) -> None:
    file, theirs = made
    for special in (False, True):
        ours = Probe(file).ask([{"encode": text, "special": special} for text in texts(HOSTILE_TEXTS)])
        for text, ids in zip(texts(HOSTILE_TEXTS), ours, strict=True):
            assert ids == theirs.encode(text, add_special_tokens=special).ids, text


def random_ids(theirs: Tokenizer) -> list[list[int]]:
    chosen = random.Random(0)
    size = theirs.get_vocab_size()
    known = [theirs.encode(text).ids for text in texts(20)]
    return known + [[chosen.randrange(size) for _ in range(chosen.randrange(12))] for _ in range(200)]


def test_texts_are_those_of_the_library(made: tuple[Path, Tokenizer]) -> None:
    file, theirs = made
    lists = random_ids(theirs)
    for skip in (False, True):
        ours = Probe(file).ask([{"decode": ids, "skip_special": skip} for ids in lists])
        assert ours == [theirs.decode(ids, skip_special_tokens=skip) for ids in lists]


def test_a_stream_gives_the_text_as_soon_as_the_library(made: tuple[Path, Tokenizer]) -> None:
    file, theirs = made
    compare_streams(Probe(file), theirs, [theirs.encode(text).ids for text in texts(20)])


def compare_streams(probe: Probe, theirs: Tokenizer, lists: list[list[int]]) -> None:
    for ids, ours in zip(lists, probe.ask([{"stream": ids} for ids in lists]), strict=True):
        stream = DecodeStream(skip_special_tokens=False)
        assert ours[:-1] == [stream.step(theirs, one) or "" for one in ids]
        assert "".join(ours) == theirs.decode(ids, skip_special_tokens=False)


def changed(tmp_path: Path, **fields: Any) -> Probe:
    file = tmp_path / "tokenizer.json"
    MADE["llama2"]().save(str(file))
    parts = json.loads(file.read_text()) | {key: value for key, value in fields.items() if key != "model"}
    parts["model"] |= fields.get("model", {})
    file.write_text(json.dumps(parts))
    return Probe(file)


@pytest.mark.parametrize(("fields", "told"), [
    ({"model": {"type": "Unigram"}}, "model.type: the model Unigram is unknown"),
    ({"model": {"dropout": 0.1}}, "model.dropout: this option of BPE is not known"),
    ({"model": {"end_of_word_suffix": "</w>"}}, "model.end_of_word_suffix"),
    ({"model": {"merges": ["a b c"]}}, "model.merges[0]: two tokens are needed"),
    ({"model": {"merges": [["a", "nosuch"]]}}, 'the token "nosuch" is not in the vocabulary'),
    ({"model": {"vocab": {"a": -1}}}, "model.vocab.a: an id from 0 to"),
    ({"model": {"vocab": {"a": 2**40}}}, "model.vocab.a: an id from 0 to"),
    ({"model": {"unk_token": "nosuch"}}, "model.unk_token: this token is not in the vocabulary"),
    ({"normalizer": {"type": "Lowercase"}}, "normalizer.type: the normalizer Lowercase is unknown"),
    ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "BertNormalizer"}]}},
     "normalizer.normalizers[1].type: the normalizer BertNormalizer is unknown"),
    ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer.type: the pre-tokenizer Whitespace is unknown"),
    ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}},
     'regular expression "(", byte 1: missing closing parenthesis'),
    ({"pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Odd"}},
     "pre_tokenizer.behavior: the behavior is unknown"),
    ({"post_processor": {"type": "BertProcessing"}}, "the post-processor BertProcessing is unknown"),
    ({"decoder": {"type": "WordPiece"}}, "decoder.type: the decoder WordPiece is unknown"),
    ({"added_tokens": [{"id": 5, "content": "<s>"}]}, 'added_tokens[0].id: "<s>" has the id 1 in the vocabulary'),
    ({"added_tokens": [{"id": 2**30, "content": "x"}]}, "added_tokens[0].id: a whole number from 0 to"),
    ({"added_tokens": 3}, "added_tokens: a list is needed"),
])
def test_an_unknown_part_is_refused_by_its_path(fields: dict[str, Any], told: str, tmp_path: Path) -> None:
    assert told in changed(tmp_path, **fields).refusal()


# Both engines compile these, and match different texts.
@pytest.mark.parametrize("expression", [r"\h+", r"\w+", r"\bthe\b", "^a", "a$", r"[a&&b]", "[[:alpha:]]", "a{,3}",
                                        "(?m:a.)", r"\v", r"a{1,2}+", r"(a)\1", r"\x41", r"\R", "(*ANY)a"])
def test_an_expression_that_engines_read_differently_is_refused(expression: str, tmp_path: Path) -> None:
    split = {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated"}
    assert "could mean another thing here" in changed(tmp_path, pre_tokenizer=split).refusal()


def test_broken_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    for content in (b"", b"{", b"[]", b"3", b'{"model": 3}', b"\xff\xfe", b"{}"):
        file.write_bytes(content)
        assert Probe(file).refusal().startswith(f"{file}")


def test_a_text_that_an_expression_cannot_split_is_an_error(tmp_path: Path) -> None:
    split = {"type": "Split", "pattern": {"Regex": "(?:a|aa)+c"}, "behavior": "Isolated"}
    answer = changed(tmp_path, pre_tokenizer=split).ask([{"encode": "a" * 100 + "bc"}])[0]
    assert "a regular expression cannot split this text: match limit exceeded" in answer["error"]


def test_replacements_that_grow_without_end_are_an_error(tmp_path: Path) -> None:
    doubled = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    many = {"type": "Sequence", "normalizers": [doubled] * 60}
    few = changed(tmp_path, normalizer=many | {"normalizers": [doubled] * 3})
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert few.ask([{"encode": "a"}]) == [theirs.encode("a", add_special_tokens=False).ids]
    answer = changed(tmp_path, normalizer=many).ask([{"encode": "a"}])[0]
    assert "make the text more than 16 times longer" in answer["error"]


def test_white_space_is_that_of_unicode(tmp_path: Path) -> None:
    """U+180E is white space for PCRE2 alone."""
    split = {"type": "Split", "pattern": {"Regex": r"\s"}, "behavior": "Removed", "invert": False}
    ours = changed(tmp_path, pre_tokenizer=split, normalizer=None)
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for space in ("\u180e", "\u2003", "\x0b", "\u200b"):
        text = f"a{space}b"
        assert ours.ask([{"encode": text}]) == [theirs.encode(text, add_special_tokens=False).ids], text


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    with file.open("wb") as content:
        content.truncate((256 << 20) + 1)
    assert "the file is longer than 256 MiB" in Probe(file).refusal()


@pytest.mark.nightly(suite="models")
@pytest.mark.parametrize("name", REAL)
def test_real_tokenizers_agree_on_every_text(name: str) -> None:
    file = tokenizer_file(name)
    theirs = Tokenizer.from_file(str(file))
    texts_of_all = chunks()
    assert sum(len(text.encode()) for text in texts_of_all) > 2_000_000
    ours = Probe(file).ask([{"encode": text, "special": True} for text in texts_of_all])
    expected = [one.ids for one in theirs.encode_batch(texts_of_all)]
    different = [text for text, mine, one in zip(texts_of_all, ours, expected, strict=True) if mine != one]
    assert different == []
    again = Probe(file).ask([{"decode": ids} for ids in expected[::10]])
    assert again == theirs.decode_batch(expected[::10], skip_special_tokens=False)
    compare_streams(Probe(file), theirs, expected[::100])
