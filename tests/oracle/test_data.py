"""Documents in training: packed, padded and joined rows, loss masks and blends against PyTorch, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from data_files import questions, text, write_jsonl
from program import Flags, refused, train
from reference_gpt import Export, ReferenceGpt, loss_and_gradients
from test_parity import LLAMA

NIGHTLY = pytest.mark.nightly(suite="meshes")
MESHES = [(1, 1), (2, 1), (1, 2), pytest.param((2, 2), marks=NIGHTLY)]  # (tensor, data) sizes


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("chats") / "chats.jsonl", questions(300))


@pytest.fixture
def tiny(flags: Flags, chats: Path) -> dict[str, Any]:
    return dict(flags) | {"data_path": chats, "params_dtype": "float64"}


def documents_of(export: Export) -> list[tuple[list[int], list[bool]]]:
    """The documents of a batch, without padding: ids, and whether the loss of each but the first counts."""
    all_starts = torch.zeros_like(export.tokens) if export.starts is None else export.starts
    all_masks = torch.ones_like(export.tokens, dtype=torch.bool) if export.mask is None else export.mask
    found = []
    for tokens, labels, starts, mask in zip(export.tokens, export.labels, all_starts, all_masks, strict=True):
        for start in starts.unique().tolist():
            own = starts == start
            assert own.nonzero().flatten().tolist() == list(range(start, start + int(own.sum())))
            if labels[own][0] == -1:  # padding
                assert (labels[own] == -1).all() and not mask[own].any() and (tokens[own] == 0).all()
                continue
            assert torch.equal(tokens[own][1:], labels[own][:-1])
            found.append(([*tokens[own].tolist(), int(labels[own][-1])], mask[own].tolist()))
    return found


def expected_documents(lines: list[dict[str, str]]) -> list[tuple[list[int], list[bool]]]:
    """What the byte tokenizer makes of prompts and responses."""
    pairs = [(line["prompt"].encode(), line["response"].encode()) for line in lines]
    return [([*prompt, *response], [False] * (len(prompt) - 1) + [True] * len(response)) for prompt, response in pairs]


def assert_matches_reference(export: Export, loss: float) -> None:
    """Loss and gradients of the same batch in PyTorch, masked by blocks; and the loss of each document alone."""
    assert export.mask is not None
    expected, gradients = loss_and_gradients(
        export.config, export.weights, export.tokens, export.labels, export.starts, export.mask)  # fmt: skip
    assert loss == pytest.approx(expected.item(), rel=1e-10)
    norm = torch.stack([g.norm() for g in gradients.values()]).norm().item()
    for name, gradient in gradients.items():
        error = (export.gradients[name] - gradient).abs().max().item()
        assert error <= 1e-9 * gradient.abs().max().item() + 1e-14 * norm, name
    model, total, count = ReferenceGpt(export.config, export.weights), 0.0, 0
    for ids, mask in documents_of(export):
        row = torch.tensor(ids).unsqueeze(0)
        part = torch.tensor(mask)
        total += model.loss(row[:, :-1], row[:, 1:], part.unsqueeze(0)).item() * int(part.sum())
        count += int(part.sum())
    assert loss == pytest.approx(total / count, rel=1e-10)


@pytest.mark.parametrize("shape", [{}, LLAMA], ids=["gpt2", "llama"])
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_packed_rows_equal_pytorch_and_the_documents_alone(
    shape: dict[str, Any], mesh: tuple[int, int], tiny: dict[str, Any], tmp_path: Path
) -> None:
    tensor, data = mesh
    changes = shape | {"train_iters": 3, "tensor_model_parallel_size": tensor}
    run = train(tiny | changes, tmp_path, tensor * data, export_at="1,3")
    for step in (1, 3):
        export = run.export(step)
        assert max(len(row.unique()) for row in export.starts) > 2, "nothing is packed"
        assert_matches_reference(export, run.steps[step - 1]["loss"])


def test_rows_hold_the_documents_of_the_file(tiny: dict[str, Any], tmp_path: Path) -> None:
    """Whole, each once in an epoch, on every mesh in the same rows; padded rows hold one each."""
    expected = sorted(expected_documents(questions(300)))
    for layout in ("packed", "padded"):
        changes = tiny | {"documents": layout, "split": "50,50", "eval_interval": 0, "train_iters": 30}
        run = train(changes, tmp_path / layout, export_at="1-30")
        seen = [one for step in range(1, 31) for one in documents_of(run.export(step))]
        assert all(one in expected for one in seen) and len({str(one) for one in seen}) > 100
        if layout == "padded":
            assert all(len(row.unique()) <= 2 for row in run.export(1).starts)
        mesh = changes | {"tensor_model_parallel_size": 2, "train_iters": 1, "micro_batch_size": 2}
        other = train(mesh, tmp_path / f"{layout}4", 4, export_at="1").export(1)
        first = run.export(1)
        for name in ("tokens", "labels", "starts", "mask"):
            assert torch.equal(getattr(first, name), getattr(other, name)), name


def test_the_loss_does_not_depend_on_micro_batches(tiny: dict[str, Any], tmp_path: Path) -> None:
    """The mean is over all labels that count, although micro-batches have different numbers of them."""
    losses = {}
    for rows, data in ((8, 1), (4, 1), (1, 1), (2, 2)):
        changes = tiny | {"micro_batch_size": rows, "train_iters": 4, "eval_interval": 2, "eval_iters": 2}
        run = train(changes, tmp_path / f"{rows}-{data}", data)
        losses[rows, data] = [(s["loss"], s["grad_norm"], s.get("valid_loss", 0)) for s in run.steps]
    first = losses.pop((8, 1))
    for mesh, other in losses.items():
        for one, two in zip(first, other, strict=True):
            assert two == pytest.approx(one, rel=1e-9), mesh


def test_the_validation_loss_does_not_depend_on_the_number_of_batches(tiny: dict[str, Any], tmp_path: Path) -> None:
    """The same rows, in 1, 2 or 4 batches: the mean is over all labels that count, not over batches."""
    still = tiny | {"documents": "padded", "micro_batch_size": 4, "train_iters": 1, "eval_interval": 1, "lr": 1e-300,
                    "min_lr": 1e-300}  # fmt: skip
    losses = [
        train(still | {"global_batch_size": 16 // batches, "eval_iters": batches}, tmp_path / str(batches)).steps[0]
        for batches in (1, 2, 4)
    ]
    for one in losses[1:]:
        assert one["valid_loss"] == pytest.approx(losses[0]["valid_loss"], rel=1e-9)


def test_padded_rows_equal_packed_rows_of_one_document(tiny: dict[str, Any], tmp_path: Path) -> None:
    run = train(tiny | {"documents": "padded", "train_iters": 2}, tmp_path, export_at="1,2")
    for step in (1, 2):
        assert_matches_reference(run.export(step), run.steps[step - 1]["loss"])


def test_joined_documents_are_one_stream(tiny: dict[str, Any], tmp_path: Path) -> None:
    """Without restarts; the loss mask stays. Of lines of text it is the run of the plain text, bit for bit."""
    run = train(tiny | {"documents": "joined"}, tmp_path / "chats", export_at="1")
    export = run.export(1)
    assert export.starts is None and export.mask is not None and not export.mask.all()
    loss, _ = loss_and_gradients(
        export.config, export.weights, export.tokens, export.labels, None, export.mask)  # fmt: skip
    assert run.losses()[0] == pytest.approx(loss.item(), rel=1e-10)
    parts = [text(i, 20, 200) for i in range(100)]
    lines = write_jsonl(tmp_path / "lines.jsonl", ({"text": part} for part in parts))
    (tmp_path / "plain.txt").write_text("".join(parts), encoding="utf-8")
    float32 = tiny | {"params_dtype": "float32", "train_iters": 5}
    one = train(float32 | {"data_path": lines, "documents": "joined"}, tmp_path / "1", export_at="5")
    two = train(float32 | {"data_path": tmp_path / "plain.txt"}, tmp_path / "2", export_at="5")
    assert one.losses() == two.losses()
    assert all(torch.equal(w, two.export(5).weights[name]) for name, w in one.export(5).weights.items())


def test_full_rows_without_masks_are_the_bits_of_plain_text(tiny: dict[str, Any], tmp_path: Path) -> None:
    """Documents that fill a row: each is one sequence whose labels all count."""
    parts = [text(i, 33, 33).encode()[:33].decode(errors="replace").encode()[:33] for i in range(100)]
    parts = [part.replace(b"\xef\xbf\xbd", b"?").ljust(33, b".")[:33] for part in parts]
    parts = [bytes(byte if byte < 128 else 63 for byte in part) for part in parts]
    lines = write_jsonl(tmp_path / "rows.jsonl", ({"text": part.decode()} for part in parts))
    run = train(tiny | {"data_path": lines, "params_dtype": "float32"}, tmp_path / "rows", export_at="1")
    export = run.export(1)
    assert export.starts is None and export.mask is None
    loss, _ = loss_and_gradients(export.config, export.weights, export.tokens, export.labels)
    assert run.losses()[0] == pytest.approx(loss.item(), rel=1e-5)


HOSTILE = {
    '{"text": "abc"': "is not JSON in UTF-8: the error is at byte 14",
    "[1, 2]": "is not a JSON object",
    '{"text": "a\\ud800"}': "is not JSON in UTF-8: the error is at byte 18",
    '{"text": "abc", "loss": NaN}': "JSON has no NaN and no Infinity: write null there",
    '{"text": "abc", "loss": 1e400}': "has a number that is too large for 64 bits",
    '{"txt": "abc"}': 'has no "text" and no "prompt"',
    '{"text": 7}': 'has a "text" that is not a text',
    '{"text": ""}': 'has an empty "text"',
    '{"text": "a"}': "has 1 token, which leaves none to predict",
    '{"prompt": "abc"}': 'has a "prompt" and no "response"',
    '{"response": "abc"}': 'has a "response" and no "prompt"',
    '{"prompt": "abc", "response": ""}': 'has an empty "response"',
    '{"prompt": "abc", "response": null}': 'has a "response" that is not a text',
    '{"prompt": "abc", "response": "d", "text": "e"}': 'has both "text" and a prompt or a response',
    '{"messages": []}': "python -m tensor_tracer prepare",
    '{"text": "' + "long " * 20 + '"}': "has 100 tokens, and a sequence of --seq-length 32 takes 33",
}


@pytest.mark.parametrize("line", HOSTILE)
def test_errors_name_the_file_and_the_line(line: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "good"}\n\n' + line + "\n")
    error = refused(tiny | {"data_path": path})
    assert f'--data-path: line 3 of "{path}"' in error and HOSTILE[line] in error, error


def test_every_rank_stops_at_a_bad_line(tiny: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "good"}\n{"prompt": 1}\n')
    assert "line 2 of" in refused(tiny | {"data_path": path}, ranks=2)


def test_overlong_documents_are_cut_on_request(tiny: dict[str, Any], tmp_path: Path) -> None:
    """The end is lost. A document whose response is cut off wholly is left out."""
    lines = questions(60) + [{"prompt": "p" * 10, "response": "r" * 80}] * 60 + [{"prompt": "q" * 40, "response": "s"}]
    path = write_jsonl(tmp_path / "long.jsonl", lines)
    run = train(tiny | {"data_path": path, "overlong": "cut", "train_iters": 12}, tmp_path / "run", export_at="1-12")
    seen = [one for step in range(1, 13) for one in documents_of(run.export(step))]
    assert ([112] * 10 + [114] * 23, [False] * 9 + [True] * 23) in seen
    assert not any(113 == ids[0] for ids, _ in seen)


def test_plain_text_has_no_documents(flags: Flags) -> None:
    error = refused(dict(flags) | {"documents": "packed"})
    assert "--documents:" in error and "plain text, which has no documents" in error


def test_a_run_resumes_only_with_the_same_data_and_layout(tiny: dict[str, Any], chats: Path, tmp_path: Path) -> None:
    saved = {"save": tmp_path / "saved", "train_iters": 2}
    whole = train(tiny | {"train_iters": 4}, tmp_path / "whole").losses()
    train(tiny | saved, tmp_path / "1")
    again = {"load": tmp_path / "saved", "train_iters": 4}
    assert "--documents: is padded, and the checkpoint has auto" in refused(tiny | again | {"documents": "padded"})
    other = write_jsonl(tmp_path / "other.jsonl", questions(301))
    assert "--data-path: has " in refused(tiny | again | {"data_path": other})
    assert train(tiny | again, tmp_path / "2").losses() == whole[2:]


def test_the_error_of_messages_names_the_command(tiny: dict[str, Any], tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "chat.jsonl", [{"messages": [{"role": "user", "content": "hi"}]}])
    error = refused(tiny | {"data_path": path})
    assert f"run python -m tensor_tracer prepare {path} --tokenizer DIR --out DIR" in error
    assert json.loads(path.read_text())["messages"][0]["role"] == "user"
