"""Megatron's indexed files, prepared folders and blends in training: rows, masks, shares and refusals."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_files import questions, write_indexed, write_jsonl, write_prepared
from program import Flags, refused, train
from reference_gpt import loss_and_gradients
from test_data import assert_matches_reference, documents_of
from tokenizers import Tokenizer, models, pre_tokenizers

IDS = 256  # of the tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of bytes, with the end token 0."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    folder = tmp_path_factory.mktemp("tokenizer")
    made.save(str(folder / "tokenizer.json"))
    return folder


def drawn(count: int, shortest: int, longest: int, seed: int = 5, below: int = IDS) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(1, below) for _ in range(draw.randint(shortest, longest))] for _ in range(count)]


@pytest.fixture
def tiny(flags: Flags) -> dict[str, Any]:
    return dict(flags) | {"params_dtype": "float64"}


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
def test_indexed_files_are_one_stream_by_default(dtype: type, tiny: dict[str, Any], tmp_path: Path) -> None:
    documents = drawn(80, 0, 90)
    prefix = write_indexed(tmp_path / "text", documents, dtype)
    export = train(tiny | {"data_path": prefix}, tmp_path / "run", export_at="1").export(1)
    ids = torch.tensor([one for document in documents for one in document])
    length = export.tokens.shape[1]
    windows = ids[: (len(ids) - 1) // length * length + 1].unfold(0, length + 1, length)
    assert export.starts is None and export.mask is None
    for row, labels in zip(export.tokens, export.labels, strict=True):
        assert (windows == torch.cat([row, labels[-1:]])).all(1).sum() == 1


def test_indexed_files_are_packed_on_request(tiny: dict[str, Any], tmp_path: Path) -> None:
    """Documents of at most one token are left out."""
    documents = drawn(200, 0, 20)
    prefix = write_indexed(tmp_path / "text", documents)
    run = train(tiny | {"data_path": prefix, "documents": "packed", "train_iters": 2}, tmp_path / "run", export_at="2")
    assert_matches_reference(run.export(2), run.losses()[1])
    assert all(ids in documents and all(mask) for ids, mask in documents_of(run.export(2)))


@pytest.fixture(scope="module")
def chats() -> tuple[list[list[int]], list[list[str]]]:
    """Turns with roles; two turns of the assistant in a document."""
    documents, roles = drawn(200, 8, 32), []
    for document in documents:
        cut = len(document) // 4
        turns = ["user"] * cut + ["assistant"] * cut + ["user"] * cut
        roles.append(turns + ["assistant"] * (len(document) - 3 * cut))
    return documents, roles


@pytest.mark.parametrize("mesh", [(1, 1), (2, 2)], ids=str)
def test_prepared_data_counts_the_assistant(
    mesh: tuple[int, int], chats: tuple, tiny: dict[str, Any], tokenizer: Path, tmp_path: Path
) -> None:
    folder = write_prepared(tmp_path / "prepared", *chats, tokenizer, IDS)
    changes = {"data_path": folder, "tokenizer": tokenizer, "train_iters": 2}
    changes |= {"tensor_model_parallel_size": mesh[0]}
    run = train(tiny | changes, tmp_path / "run", mesh[0] * mesh[1], export_at="2")
    assert_matches_reference(run.export(2), run.losses()[1])
    masks = {tuple(ids): [role == "assistant" for role in roles[1:]] for ids, roles in zip(*chats, strict=True)}
    assert all(masks[tuple(ids)] == mask for ids, mask in documents_of(run.export(2)))


def test_prepared_data_of_another_tokenizer_is_refused(
    chats: tuple, tiny: dict[str, Any], tokenizer: Path, tmp_path: Path
) -> None:
    folder = write_prepared(tmp_path / "prepared", *chats, tokenizer, IDS)
    other = tmp_path / "other"
    other.mkdir()
    text = (tokenizer / "tokenizer.json").read_text()
    (other / "tokenizer.json").write_text(text + "\n")
    for given in (other, "byte"):
        error = refused(tiny | {"data_path": folder, "tokenizer": given})
        assert "was prepared with the tokenizer of the SHA-256" in error, error
    facts = json.loads((folder / "prepared.json").read_text())
    (folder / "prepared.json").write_text(json.dumps(facts | {"documents": 7}))
    assert "says 7 documents, and data.idx has 200" in refused(tiny | {"data_path": folder, "tokenizer": tokenizer})
    (folder / "data.roles.bin").write_bytes(b"")
    assert "data.roles.bin\" is empty" in refused(tiny | {"data_path": folder, "tokenizer": tokenizer})


def test_damaged_indexed_files_are_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    prefix = write_indexed(tmp_path / "text", drawn(50, 30, 60) + [[7, 300, 8]])
    error = refused(tiny | {"data_path": prefix})
    assert f'document 51 of "{prefix}" has the id 300 at position 1, and the model has 256 ids' in error
    data = prefix.with_name("text.bin").read_bytes()
    prefix.with_name("text.bin").write_bytes(data[:-2])
    assert "document 51 has 3 tokens" in refused(tiny | {"data_path": prefix}, ranks=2)
    prefix.with_name("text.idx").write_bytes(b"MMIDIDX")
    assert "is not an index of Megatron-LM" in refused(tiny | {"data_path": prefix})


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Data whose rows can be told apart: ids below 100, and letters."""
    low = write_indexed(tmp_path / "low", drawn(100, 40, 60, below=40))
    return low, write_jsonl(tmp_path / "chats.jsonl", questions(300))


def is_low(row: torch.Tensor) -> bool:
    return int(row.max()) < 40


def test_blends_keep_their_shares_on_every_mesh(two: tuple[Path, Path], tiny: dict[str, Any], tmp_path: Path) -> None:
    """Of every beginning; and each dataset runs through its own epochs."""
    low, chats = two
    changes = tiny | {"data_path": ["0.3", str(low), "0.7", str(chats)], "train_iters": 20}
    run = train(changes, tmp_path / "1", export_at="1-20")
    count = 0
    for step in range(1, 21):
        export = run.export(step)
        for row in export.tokens:
            count += is_low(row)
        assert abs(count - 0.3 * 8 * step) <= 1.5
    export, loss = run.export(1), run.losses()[0]
    expected, _ = loss_and_gradients(
        export.config, export.weights, export.tokens, export.labels, export.starts, export.mask)  # fmt: skip
    assert loss == pytest.approx(expected.item(), rel=1e-10)
    mesh = changes | {"tensor_model_parallel_size": 2, "micro_batch_size": 2, "train_iters": 3}
    other = train(mesh, tmp_path / "4", 4, export_at="3")
    assert torch.equal(other.export(3).tokens, run.export(3).tokens)
    assert other.losses() == pytest.approx(run.losses()[:3], rel=1e-9)
    single = train(changes | {"data_path": ["3", str(low), "7", str(chats)], "train_iters": 1}, tmp_path / "w")
    assert single.losses()[0] == loss


def test_blends_need_their_weights(two: tuple[Path, Path], tiny: dict[str, Any]) -> None:
    low, chats = map(str, two)
    wrong = {
        (low, chats): "are two datasets; give a weight before each path",
        ("0.3", low, chats, "0.7"): f'"{chats}" stands where a weight is expected',
        ("0.3", low, "0.7"): "there is no path after the weight 0.7",
        ("0", low, "1", chats): "the weight 0 is not above 0",
        ("nan", low, "1", chats): "the weight nan is not above 0",
    }
    for values, message in wrong.items():
        assert message in refused(tiny | {"data_path": list(values)}), values


def test_a_resumed_run_keeps_the_weights(two: tuple[Path, Path], tiny: dict[str, Any], tmp_path: Path) -> None:
    low, chats = map(str, two)
    data = {"data_path": ["0.5", low, "0.5", chats]}
    whole = train(tiny | data | {"train_iters": 4}, tmp_path / "whole").losses()
    train(tiny | data | {"train_iters": 2, "save": tmp_path / "saved"}, tmp_path / "1")
    again = tiny | {"load": tmp_path / "saved", "train_iters": 4}
    assert train(again | data, tmp_path / "2").losses() == whole[2:]
    assert "--data-path: has 0.4 of " in refused(again | {"data_path": ["0.4", low, "0.5", chats]})
