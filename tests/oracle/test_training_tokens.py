"""Training on the tokens of a tokenizer.json: the ids are those of pip's `tokenizers`, on every mesh and on the page."""

from __future__ import annotations

import json
import shutil
import string
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hf_models import LENGTH, random_model, save
from program import Flags, refused, train
from tensor_tracer import open_recording
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from viewer import live_run

IDS, END = 300, "<|end|>"
LARGE = 150_000  # ids


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files; the second has a byte that is not UTF-8, and the name of a special token."""
    folder = tmp_path_factory.mktemp("texts")
    lines = [f"def f{i}(x): return x * {i * i}  # café {i % 7}\n" for i in range(400)]
    (folder / "a.py").write_text("".join(lines))
    (folder / "b.py").write_bytes(b"caf\xe9 = 1\n" + END.encode() + "".join(reversed(lines)).encode())
    return folder


@pytest.fixture(scope="module")
def tokenizer(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `save_pretrained` writes it: byte-level BPE whose template begins a prompt with the end token."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=IDS, special_tokens=[END], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    made.train([str(texts / "a.py")], trainer)
    made.post_processor = processors.TemplateProcessing(single=f"{END} $A", special_tokens=[(END, 0)])
    folder = tmp_path_factory.mktemp("tokenizer")
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": END}}))
    return folder


def ids_of(texts: Path, tokenizer: Path) -> list[int]:
    made, ids = Tokenizer.from_file(str(tokenizer / "tokenizer.json")), []
    for path in sorted(texts.iterdir()):
        text = path.read_bytes().decode(errors="replace")
        ids += [*made.encode(text, add_special_tokens=False).ids, made.token_to_id(END)]
    return ids


@pytest.fixture
def tiny(flags: Flags, texts: Path, tokenizer: Path) -> dict[str, Any]:
    return dict(flags) | {"data_path": texts, "tokenizer": tokenizer}


def test_batches_are_the_ids_of_the_text(tiny: dict[str, Any], texts: Path, tokenizer: Path, tmp_path: Path) -> None:
    """On one rank and on four: rows of the text's ids, in one order. The vocabulary is the tokenizer's."""
    alone = train(tiny, tmp_path / "1", export_at="1").export(1)
    ids = torch.tensor(ids_of(texts, tokenizer))
    length = alone.tokens.shape[1]
    windows = ids[: (len(ids) - 1) // length * length + 1].unfold(0, length + 1, length)
    for row, labels in zip(alone.tokens, alone.labels, strict=True):
        assert torch.equal(row[1:], labels[:-1])
        assert (windows == torch.cat([row, labels[-1:]])).all(1).sum() == 1
    assert alone.config.vocab_size == IDS
    assert alone.weights["embedding.word_embeddings.weight"].shape[0] == IDS
    mesh = tiny | {"tensor_model_parallel_size": 2, "tokenizer": tokenizer / "tokenizer.json"}
    other = train(mesh, tmp_path / "4", 4, export_at="1").export(1)
    assert torch.equal(alone.tokens, other.tokens) and other.loss == pytest.approx(alone.loss, rel=1e-5)


def test_the_page_shows_the_tokens(tiny: dict[str, Any], tokenizer: Path, tmp_path: Path) -> None:
    """Facts, prompts of a file and prompts of a viewer; programs know the texts on every rank."""
    made = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    prompt = "def f(x): return café"
    (tmp_path / "probes.txt").write_text(prompt + "\n")
    changes = {"train_iters": 100_000, "monitor_prompts": tmp_path / "probes.txt", "tensor_model_parallel_size": 2}
    with live_run(tiny | changes, tmp_path / "run", 2) as run, run.viewer() as viewer:
        viewer.wait_for(lambda: viewer.run is not None, "the facts of the run")
        facts = viewer.run
        assert facts is not None
        assert facts["tokenizer"]["texts"] == [made.decode([id], skip_special_tokens=False) for id in range(IDS)]
        assert facts["prompt_sets"][0]["tokens"] == [made.encode(prompt).ids]
        assert 0 < facts["unigram_entropy"] < torch.log(torch.tensor(float(IDS)))
        viewer.request("control.claim", {"name": "oracle"})
        viewer.request("control.pause")
        answer = viewer.request("prompt.run", {"text": "return x"})
        assert answer["tokens"] == made.encode("return x").ids
        program = 'when(token_text="return")\nlayers[1].output *= 0'
        viewer.request("intervention.apply", {"name": "silence", "program": program})
        viewer.request("control.step", {"count": 2})
        viewer.wait_for(lambda: any(one["programs"] for one in viewer.named("applied")), "an effect")
        viewer.request("control.stop")


@pytest.mark.nightly(suite="meshes")
def test_the_page_knows_the_texts_of_a_large_vocabulary(flags: Flags, tmp_path: Path) -> None:
    """150,000 texts in the run's facts; batch, prompt and most likely tokens are ids of this vocabulary. Qwen3's texts
    need 1.4 MiB, these 1.0 MiB."""
    tokenizer = tmp_path / "tokenizer.json"
    words = write_large_tokenizer(tokenizer)
    made = Tokenizer.from_file(str(tokenizer))
    (tmp_path / "text.txt").write_text("\n".join(words[at * 7919 % len(words)] for at in range(5000)))
    plan = {"entries": [{"point": "InputTokens", "rows": 0, "compressor": {"kind": "none"}},
                        {"point": "Logits", "rows": 0, "compressor": {"kind": "topk", "k": 3}}]}  # fmt: skip
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    changes = {"data_path": tmp_path / "text.txt", "tokenizer": tokenizer, "train_iters": 100_000, "lr": 1e-2,
               "micro_batch_size": 1, "global_batch_size": 1, "tensor_model_parallel_size": 2,
               "tensor_tracer_plan": tmp_path / "plan.json"}  # fmt: skip
    with live_run(dict(flags) | changes, tmp_path / "run", 2) as run, run.viewer() as viewer:
        assert viewer.run is not None
        texts = viewer.run["tokenizer"]["texts"]
        assert texts == [made.decode([id], skip_special_tokens=False) for id in range(LARGE)]
        viewer.wait_for(lambda: {"InputTokens", "Logits"} <= {one.point for one in viewer.records}, "records")
        ids = next(one for one in viewer.records if one.point == "InputTokens").values[0][0]
        shown = "".join(texts[id] for id in ids)
        assert shown in (tmp_path / "text.txt").read_text() and max(ids) > LARGE // 2
        best = next(one for one in viewer.records if one.point == "Logits").values[1]
        assert best.min() >= 0 and LARGE // 2 < best.max() < LARGE
        viewer.request("control.claim", {"name": "oracle"})
        viewer.request("control.pause")
        assert viewer.request("prompt.run", {"text": words[-1]})["tokens"] == [LARGE - 1]
        viewer.request("control.stop")
        run.wait()
    record = open_recording(run.run_dir / "run.ttrec").records("Logits")[0]
    assert record.tokens is not None and "".join(record.tokens[0]) in (tmp_path / "text.txt").read_text()


def write_large_tokenizer(path: Path) -> list[str]:
    """Byte-level BPE with a token for each word of one to three letters and for many of four. Returns the last ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words, merges = [*alphabet], list[tuple[str, str]]()
    before = letters = string.ascii_lowercase
    for _ in range(3):
        pairs = [(start, letter) for start in before for letter in letters][: LARGE - len(words)]
        before = [start + letter for start, letter in pairs]
        words, merges = words + before, merges + pairs
    made = Tokenizer(models.BPE({word: id for id, word in enumerate(words)}, merges, ignore_merges=True))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(path))
    return list(before)


def test_a_model_brings_its_tokenizer(texts: Path, tokenizer: Path, tmp_path: Path) -> None:
    """--hf-model without --tokenizer; the ids reach `transformers`' loss; the files go along."""
    model = random_model("gpt2", torch.float32)
    model.resize_token_embeddings(IDS)
    folder = save(model, tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, folder)
    flags = {"hf_model": folder, "data_path": texts, "seq_length": LENGTH, "micro_batch_size": 2, "train_iters": 1,
             "eval_interval": 0, "threads": 1, "save_hf": tmp_path / "out"}  # fmt: skip
    export = train(flags, tmp_path / "run", export_at="1").export(1)
    assert export.tokens.max() > 255
    loss = F.cross_entropy(model(export.tokens).logits.flatten(0, 1), export.labels.flatten())
    assert export.loss == pytest.approx(loss.item(), rel=1e-5)
    assert (tmp_path / "out" / "tokenizer.json").read_text() == (folder / "tokenizer.json").read_text()
    by_bytes = train(flags | {"tokenizer": "byte", "save_hf": tmp_path / "bytes"}, tmp_path / "b", export_at="1")
    assert by_bytes.export(1).tokens.max() < 256


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_does_not_fit_is_refused(ranks: int, tiny: dict[str, Any], tokenizer: Path, tmp_path: Path) -> None:
    tiny = tiny | {"tensor_model_parallel_size": ranks, "run_dir": tmp_path / "run"}
    assert f"--vocab-size: the tokenizer has {IDS} ids, and the model 299 rows" in refused(
        tiny | {"vocab_size": 299}, ranks)  # fmt: skip
    assert "--tokenizer:" in refused(tiny | {"tokenizer": tmp_path / "nothing"}, ranks)
    unknown = json.loads((tokenizer / "tokenizer.json").read_text())
    unknown["model"]["type"] = "Unigram"
    (tmp_path / "tokenizer.json").write_text(json.dumps(unknown))
    message = refused(tiny | {"tokenizer": tmp_path}, ranks)
    assert "Unigram" in message and str(tmp_path / "tokenizer.json") in message


def test_a_resumed_run_needs_the_same_tokenizer(tiny: dict[str, Any], tokenizer: Path, tmp_path: Path) -> None:
    both = tiny | {"lr_decay_iters": 4}
    whole = train(both | {"train_iters": 4}, tmp_path / "1").losses()
    half = train(both | {"train_iters": 2, "save": tmp_path / "saved"}, tmp_path / "2").losses()
    rest = train(both | {"train_iters": 4, "load": tmp_path / "saved"}, tmp_path / "3").losses()
    assert half + rest == whole
    manifest = json.loads(next((tmp_path / "saved").glob("*/manifest.json")).read_text())
    assert set(manifest["facts"]["tokenizer"]) == {"kind", "hash"}
    other = Path(shutil.copytree(tokenizer, tmp_path / "other"))
    text = (other / "tokenizer.json").read_text()
    (other / "tokenizer.json").write_text(text + "\n")
    changes = {"train_iters": 4, "load": tmp_path / "saved", "tokenizer": other, "run_dir": tmp_path / "4" / "run"}
    assert "--tokenizer: is a file with the hash" in refused(both | changes)
