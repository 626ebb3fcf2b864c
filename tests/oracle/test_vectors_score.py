"""`vector score` against hidden states of `transformers`, on small random models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_files import text, write_jsonl, write_prepared
from generation import generate
from hf_models import save
from safetensors.torch import save_file
from test_convert import write_tokenizer
from vector_runs import LAYERS, Text, answer, contrast, deep_model, means_of, refusal, texts_of, vector, words_of

COUNT, LAYER = 21, 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    made = deep_model("qwen2")
    return made, save(made, tmp_path_factory.mktemp("qwen2") / "model")


@pytest.fixture(scope="module")
def rows() -> torch.Tensor:
    return torch.randn(LAYERS + 1, 48, generator=torch.Generator().manual_seed(8))


@pytest.fixture(scope="module")
def files(rows: torch.Tensor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts to score, own responses to the same prompts, and vectors."""
    folder = tmp_path_factory.mktemp("files")
    texts, _ = contrast(COUNT, seed=70)
    own = [{"prompt": line["prompt"], "response": text(i, 1, 9)} for i, line in enumerate(texts)]
    write_jsonl(folder / "texts.jsonl", [line | {"id": {"n": i}} for i, line in enumerate(texts)])
    write_jsonl(folder / "own.jsonl", own)
    torch.save(rows, folder / "evil.pt")
    torch.save(rows[1:], folder / "short.pt")
    return folder


def words(model: Path, files: Path, out: Path, **flags: Any) -> list[str]:
    given = {"hf_model": model, "vectors": files / "evil.pt", "layer": LAYER, "out": out, "threads": 1}
    return ["score", str(files / "texts.jsonl"), *words_of({k: v for k, v in (given | flags).items() if v is not None})]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def projections(model: Any, texts: list[Text], rows: torch.Tensor, layer: int, first: bool = False) -> list[float]:
    """NaN: no token of the response counts."""
    unit = rows[layer].double() / rows[layer].double().norm()
    means = means_of(model, texts, "response", first)
    return [float("nan") if mean is None else float(mean[layer] @ unit) for mean in means]


def assert_ranked(lines: list[dict[str, Any]], label: str, expected: list[float]) -> None:
    assert [line[label] for line in lines] == pytest.approx(expected, abs=1e-4)
    order = sorted(range(len(lines)), key=lambda i: -lines[i][label])
    assert [lines[i]["rank"] for i in order] == list(range(1, len(lines) + 1))


@pytest.mark.parametrize(("tensor", "replicas"), [(1, 1), (2, 1), (1, 2)])
def test_projections_are_those_of_transformers(
    tensor: int, replicas: int, model: tuple[Any, Path], files: Path, rows: torch.Tensor, tmp_path: Path
) -> None:
    flags = {"tensor_model_parallel_size": tensor, "batch_size": 2}
    told = answer(*words(model[1], files, tmp_path / "out.jsonl", **flags), ranks=tensor * replicas)
    texts, lines = read(files / "texts.jsonl"), read(tmp_path / "out.jsonl")
    expected = projections(model[0], texts_of(texts), rows, LAYER)
    assert_ranked(lines, "projection", expected)
    for line, source in zip(lines, texts, strict=True):
        assert {key: line[key] for key in source} == source and line.keys() - source.keys() == {"projection", "rank"}
    counts, edges = np.histogram([line["projection"] for line in lines], bins=20)
    assert told["histogram"]["counts"] == counts.tolist() and told["histogram"]["edges"] == pytest.approx(edges.tolist())
    assert (told["score"], told["texts"], told["scored"], told["dropped"]) == ("projection", COUNT, COUNT, 0)
    assert told["mean"] == pytest.approx(np.mean(expected), abs=1e-4)
    assert told["standard_deviation"] == pytest.approx(np.std(expected), abs=1e-4)


def test_a_difference_takes_the_own_response_off(model: tuple[Any, Path], files: Path, rows: torch.Tensor, tmp_path: Path) -> None:
    told = answer(*words(model[1], files, tmp_path / "out.jsonl", base_responses=files / "own.jsonl"), ranks=2)
    lines = read(tmp_path / "out.jsonl")
    own, base = (projections(model[0], texts_of(read(files / name)), rows, LAYER) for name in ("texts.jsonl", "own.jsonl"))
    assert_ranked(lines, "projection_difference", [a - b for a, b in zip(own, base, strict=True)])
    assert [line["projection"] for line in lines] == pytest.approx(own, abs=1e-4)
    assert [line["base_projection"] for line in lines] == pytest.approx(base, abs=1e-4)
    assert told["score"] == "projection_difference"


def test_the_output_of_generate_has_the_own_responses(
    model: tuple[Any, Path], files: Path, rows: torch.Tensor, tmp_path: Path
) -> None:
    prompts = [line["prompt"] for line in read(files / "texts.jsonl")]
    made = generate(model[1], prompts, tmp_path, max_new_tokens=6, ignore_eos=True).responses
    answer(*words(model[1], files, tmp_path / "out.jsonl", base_responses=tmp_path / "responses.jsonl"))
    lines = read(tmp_path / "out.jsonl")
    own = projections(model[0], texts_of(read(files / "texts.jsonl")), rows, LAYER)
    assert {line["finish_reason"] for line in made} == {"length"}
    ids = [(list(line["prompt"].encode()), line["token_ids"]) for line in made]
    assert any(line["text"].encode() != bytes(one % 256 for one in line["token_ids"]) for line in made)
    base = projections(
        model[0], [Text(a + b, [False] * len(a) + [True] * len(b)) for a, b in ids], rows, LAYER
    )  # fmt: skip
    assert [line["base_projection"] for line in lines] == pytest.approx(base, abs=1e-4)
    assert_ranked(lines, "projection_difference", [a - b for a, b in zip(own, base, strict=True)])


def test_an_own_response_may_be_empty(model: tuple[Any, Path], files: Path, tmp_path: Path) -> None:
    """The model answered with the end token alone; then there is no difference."""
    own = read(files / "own.jsonl")
    write_jsonl(tmp_path / "own.jsonl", [{"prompt": own[0]["prompt"], "text": ""}, *own[1:]])
    told = answer(*words(model[1], files, tmp_path / "out.jsonl", base_responses=tmp_path / "own.jsonl"))
    lines = read(tmp_path / "out.jsonl")
    assert told["scored"] == COUNT - 1 and lines[0]["rank"] is None
    assert lines[0]["projection_difference"] is None and lines[0]["base_projection"] is None


def answers(model: Any, texts: list[dict[str, str]], most: int) -> list[Text]:
    """The most probable responses to the prompts, without the end token."""
    made, room = [], model.config.max_position_embeddings
    for line in texts:
        prompt = list(line["prompt"].encode())
        count = min(most, room - len(prompt))
        ids = model.generate(torch.tensor([prompt]), max_new_tokens=count, do_sample=False)[0, len(prompt) :].tolist()
        response = ids[:-1] if ids[-1] == model.config.eos_token_id else ids
        made.append(Text(prompt + response, [False] * len(prompt) + [True] * len(response)))
    return made


@pytest.mark.parametrize(("tensor", "replicas"), [(1, 1), (2, 1), (1, 2)])
def test_the_model_makes_the_own_responses(
    tensor: int, replicas: int, model: tuple[Any, Path], files: Path, rows: torch.Tensor, tmp_path: Path
) -> None:
    texts = [line for line in read(files / "texts.jsonl") if "prompt" in line]
    write_jsonl(tmp_path / "texts.jsonl", texts)
    flags = {"base_responses": "generate", "max_new_tokens": 6, "tensor_model_parallel_size": tensor, "batch_size": 3}
    line = words(model[1], files, tmp_path / "out.jsonl", **flags)
    line[1] = str(tmp_path / "texts.jsonl")
    answer(*line, ranks=tensor * replicas)
    own, base = (projections(model[0], some, rows, LAYER) for some in (texts_of(texts), answers(model[0], texts, 6)))
    found = read(tmp_path / "out.jsonl")
    assert [one["base_projection"] for one in found] == pytest.approx(base, abs=1e-4)
    assert_ranked(found, "projection_difference", [a - b for a, b in zip(own, base, strict=True)])
    write_jsonl(tmp_path / "texts.jsonl", [texts[0], {"text": "no prompt"}])
    told = refusal(*line, "--force")
    assert "--base-responses: line 2 of" in told and "has no prompt; give texts with a prompt" in told


@pytest.mark.parametrize(("drop", "dropped"), [("20%", 4), ("100%", COUNT), ("3", 3), ("1000", COUNT), ("0%", 0)])
def test_the_top_is_left_out(drop: str, dropped: int, model: tuple[Any, Path], files: Path, tmp_path: Path) -> None:
    """The order of the others stays, and the file is as good for training as the one that was read."""
    answer(*words(model[1], files, tmp_path / "all.jsonl"))
    told = answer(*words(model[1], files, tmp_path / "kept.jsonl", drop_top=drop))
    assert told["dropped"] == dropped
    assert read(tmp_path / "kept.jsonl") == [line for line in read(tmp_path / "all.jsonl") if line["rank"] > dropped]


def test_layer_n_uses_row_n(model: tuple[Any, Path], files: Path, rows: torch.Tensor, tmp_path: Path) -> None:
    """With and without the row of the embedding; the best layer of the file is the default; its rule for the first token counts."""
    texts = texts_of(read(files / "texts.jsonl"))
    (tmp_path / "lines.txt").write_text("Thou art late\nYou are late\n")
    for layer in range(LAYERS + 1):
        out = tmp_path / f"{layer}.jsonl"
        answer(*words(model[1], files, out, layer=layer))
        assert_ranked(read(out), "projection", projections(model[0], texts, rows, layer))
        if layer > 0:
            answer(*words(model[1], files, out, layer=layer, vectors=files / "short.pt", force=True))
            assert_ranked(read(out), "projection", projections(model[0], texts, rows, layer))
    about = {"evil": {"best_layer": 2, "first_token": "included"}, "kind": {"best_layer": 1}}
    save_file({"evil": rows, "kind": -rows}, tmp_path / "two.safetensors", {"tensor_tracer.vectors": json.dumps(about)})
    flags = {"vectors": tmp_path / "two.safetensors", "layer": None}
    plain = [Text.of(line) for line in ("Thou art late", "You are late")]
    for name, layer, first, sign in (("evil", 2, True, 1), ("kind", 1, False, -1)):
        line = words(model[1], files, tmp_path / f"{name}.jsonl", name=name, **flags)
        line[1] = str(tmp_path / "lines.txt")
        answer(*line)
        found = read(tmp_path / f"{name}.jsonl")
        assert_ranked(found, "projection", projections(model[0], plain, sign * rows, layer, first))
        assert [one["text"] for one in found] == ["Thou art late", "You are late"]
    assert "holds several vectors" in refusal(*words(model[1], files, tmp_path / "no.jsonl", **flags))
    assert "did you mean evil?" in refusal(*words(model[1], files, tmp_path / "no.jsonl", name="evli", **flags))


def test_a_text_without_a_token_has_no_rank(model: tuple[Any, Path], files: Path, tmp_path: Path) -> None:
    """Its only token is the first one. It is never dropped."""
    write_jsonl(tmp_path / "texts.jsonl", [{"text": "ab"}, {"text": "x"}, {"text": "abc"}])
    line = words(model[1], files, tmp_path / "out.jsonl", drop_top="1000")
    line[1] = str(tmp_path / "texts.jsonl")
    told = answer(*line)
    assert (told["texts"], told["scored"], told["dropped"]) == (3, 2, 2)
    assert read(tmp_path / "out.jsonl") == [{"text": "x", "projection": None, "rank": None}]


def test_prepared_data_are_numbered(model: tuple[Any, Path], files: Path, rows: torch.Tensor, tmp_path: Path) -> None:
    folder = save(model[0], tmp_path / "model")
    write_tokenizer(folder)
    documents = [list(text(i, 4, 12).encode()) for i in range(5)]
    roles = [["user"] * 2 + ["assistant"] * (len(one) - 2) for one in documents]
    write_prepared(tmp_path / "chats", documents, roles, folder, 257)
    line = words(folder, files, tmp_path / "out.jsonl")
    line[1] = str(tmp_path / "chats")
    answer(*line)
    expected = projections(model[0], [Text(ids, [role == "assistant" for role in one]) for ids, one in zip(documents, roles, strict=True)],
                           rows, LAYER)  # fmt: skip
    found = read(tmp_path / "out.jsonl")
    assert_ranked(found, "projection", expected)
    assert [one["document"] for one in found] == [1, 2, 3, 4, 5]


def test_people_get_a_histogram(model: tuple[Any, Path], files: Path, tmp_path: Path) -> None:
    done = vector(*words(model[1], files, tmp_path / "out.jsonl", drop_top="5%"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"projection of {COUNT} texts" and lines[-1].endswith(f"out.jsonl: {COUNT - 1} texts, 1 dropped")
    assert sum(int(line.split()[-1]) for line in lines[2:-1]) == COUNT and len(lines) == 23


def test_wrong_words_are_refused(model: tuple[Any, Path], files: Path, rows: torch.Tensor, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    own = read(files / "own.jsonl")
    write_jsonl(tmp_path / "fewer.jsonl", own[1:])
    write_jsonl(tmp_path / "others.jsonl", [own[0], own[1] | {"prompt": "another"}, *own[2:]])
    write_jsonl(tmp_path / "both.jsonl", [own[0] | {"text": "another"}, *own[1:]])
    torch.save(rows[:2], tmp_path / "rows.pt")
    torch.save(rows * torch.tensor([1, 1, 1, 0, 1]).unsqueeze(1), tmp_path / "zero.pt")
    (tmp_path / "there.jsonl").write_text("years")
    for flags, message in [
        ({"vectors": None}, "--vectors: there is no vector"),
        ({"layer": None}, "names no best layer"),
        ({"layer": LAYERS + 1}, f"is {LAYERS + 1}, and the model has {LAYERS} layers"),
        ({"layer": -1}, "--layer"),
        ({"layer": 0, "vectors": files / "short.pt"}, "has no row of the embedding"),
        ({"vectors": tmp_path / "rows.pt"}, "has shape [2, 48], this model needs [5, 48]"),
        ({"vectors": tmp_path / "zero.pt"}, "row 3 of the vector is no direction"),
        ({"base_responses": tmp_path / "fewer.jsonl"}, f"has {COUNT - 1} texts, and"),
        ({"base_responses": tmp_path / "others.jsonl"}, "line 2 of"),
        ({"base_responses": tmp_path / "both.jsonl"}, 'has both "text" and "response"; keep one of them'),
        ({"drop_top": "5x"}, "--drop-top"),
        ({"drop_top": "101%"}, "--drop-top"),
        ({"drop_top": "-3"}, "--drop-top"),
        ({"out": tmp_path / "out.txt"}, "does not end with .jsonl"),
        ({"out": tmp_path / "there.jsonl"}, "exists; --force replaces it"),
    ]:
        assert message in refusal(*words(model[1], files, **({"out": out} | flags))), flags
    assert (tmp_path / "there.jsonl").read_text() == "years" and not out.exists()
