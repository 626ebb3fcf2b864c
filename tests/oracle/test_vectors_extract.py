"""`vector extract` against hidden states of `transformers`, on small random models and every mesh."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_runs import checkpoint
from data_files import text, write_jsonl, write_prepared
from hf_models import save
from program import train
from safetensors.torch import load_file, save_file
from tensor_tracer import open_recording
from test_convert import write_tokenizer
from test_hf_models import STILL, flags_for
from test_lora import random_adapters
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM
from vector_runs import (
    KINDS,
    LAYERS,
    POSITIONS,
    Text,
    answer,
    area,
    assert_rows_close,
    contrast,
    deep_model,
    effect,
    expected_vector,
    means_of,
    refusal,
    texts_of,
    vector,
    words_of,
)

NIGHTLY = pytest.mark.nightly(suite="meshes")
SUFFIXES = {"response": "response_avg_diff", "prompt": "prompt_avg_diff", "last-prompt": "prompt_last_diff"}
COUNT = 12


@pytest.fixture(scope="module", params=["gpt2", "qwen2"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    made = deep_model(request.param)
    return made, save(made, tmp_path_factory.mktemp(request.param) / "model")


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    made = deep_model("gpt2")
    return made, save(made, tmp_path_factory.mktemp("gpt2") / "model")


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Not pairs."""
    return written(tmp_path_factory.mktemp("sides"), contrast(COUNT, more=1))


def written(folder: Path, both: tuple[list[dict[str, str]], list[dict[str, str]]]) -> tuple[Path, Path]:
    return write_jsonl(folder / "positive.jsonl", both[0]), write_jsonl(folder / "negative.jsonl", both[1])


def words(folder: Path, sides: tuple[Path, Path], out: Path | None, **flags: Any) -> list[str]:
    given = {"hf_model": folder, "positive": sides[0], "negative": sides[1], "out": out, "held_out": 0, "threads": 1}
    return ["extract", *words_of({name: value for name, value in (given | flags).items() if value is not None})]


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def texts(sides: tuple[Path, Path]) -> tuple[list[Text], list[Text]]:
    return texts_of(lines(sides[0])), texts_of(lines(sides[1]))


# --- Equal to transformers ----------------------------------------------------------------------


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("tensor", "replicas"), [(1, 1), (2, 1), (1, 2), pytest.param(4, 1, marks=NIGHTLY), pytest.param(2, 2, marks=NIGHTLY)]
)
def test_every_kind_equals_transformers(
    tensor: int, replicas: int, first: bool, model: tuple[Any, Path], sides: tuple[Path, Path], tmp_path: Path
) -> None:
    """Texts of many lengths, one of them of one token; the last batch is not full, and a replica has no text."""
    flags = {"kind": ",".join(KINDS), "include_first_token": first or None, "tensor_model_parallel_size": tensor, "batch_size": 3}
    told = answer(*words(model[1], sides, tmp_path / "new" / "evil.pt", **flags), ranks=tensor * replicas)
    assert [one["name"] for one in told] == [f"evil_{SUFFIXES[kind]}" for kind in KINDS]
    for kind, one in zip(KINDS, told, strict=True):
        found = torch.load(tmp_path / "new" / f"evil_{SUFFIXES[kind]}.pt", weights_only=True)
        expected = expected_vector(model[0], *texts(sides), kind, first)
        assert_rows_close(found, expected)
        assert one["shape"] == list(expected.shape) == [LAYERS + 1, 48] and one["dtype"] == "float32"
        assert one["norms"] == pytest.approx(expected.norm(dim=-1).tolist(), rel=1e-5)
        assert one["provenance"]["kind"] == kind
        assert one["provenance"]["first_token"] == ("included" if first else "left out")
    assert len(list((tmp_path / "new").iterdir())) == 3


def test_both_forms_hold_the_same_bits(model: tuple[Any, Path], sides: tuple[Path, Path], tmp_path: Path) -> None:
    for name in ("evil.pt", "evil.safetensors"):
        answer(*words(model[1], sides, tmp_path / name))
    found = torch.load(tmp_path / "evil.pt", weights_only=True)
    assert torch.equal(load_file(tmp_path / "evil.safetensors")["evil"], found)
    assert not found.requires_grad and found.is_contiguous()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["evil.pt", "evil.safetensors"]


@pytest.mark.parametrize("tensor", [1, 2, pytest.param(4, marks=NIGHTLY)])
@pytest.mark.parametrize("name", ["gpt2", "qwen2"])
def test_bf16(name: str, tensor: int, sides: tuple[Path, Path], tmp_path: Path) -> None:
    """A file in bf16 is read exactly; with --bf16 both programs round in their own way."""
    made = deep_model(name, torch.bfloat16)
    folder = save(made, tmp_path / "model")
    mesh = {"tensor_model_parallel_size": tensor}
    answer(*words(folder, sides, tmp_path / "whole.pt", **mesh), ranks=tensor)
    answer(*words(folder, sides, tmp_path / "half.pt", bf16=True, **mesh), ranks=tensor)
    whole, half = (torch.load(tmp_path / name, weights_only=True) for name in ("whole.pt", "half.pt"))
    theirs = expected_vector(made, *texts(sides), "response", False)
    exact = expected_vector(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), *texts(sides), "response", False)
    assert_rows_close(whole, exact)
    assert torch.cosine_similarity(half.double(), theirs, dim=-1).min() >= 0.999
    assert not torch.equal(half, whole)


@pytest.mark.parametrize("batch", [1, 64])
def test_batches_change_only_the_rounding(batch: int, gpt2: tuple[Any, Path], sides: tuple[Path, Path], tmp_path: Path) -> None:
    answer(*words(gpt2[1], sides, tmp_path / "v.pt", batch_size=batch))
    found = torch.load(tmp_path / "v.pt", weights_only=True)
    assert_rows_close(found, expected_vector(gpt2[0], *texts(sides), "response", False))


# --- Texts --------------------------------------------------------------------------------------


def test_lines_are_texts_without_prompts(gpt2: tuple[Any, Path], tmp_path: Path) -> None:
    """Blank lines, a line end of Windows, and another number of texts on the other side."""
    files = (tmp_path / "old.txt", tmp_path / "new.txt")
    files[0].write_bytes("Thou art late.\r\n\n  \nHe hath é\n".encode())
    files[1].write_text("You are late.\nHe has\nIt is")
    positive = [Text.of(one) for one in ("Thou art late.", "He hath é")]
    negative = [Text.of(one) for one in ("You are late.", "He has", "It is")]
    told = answer(*words(gpt2[1], files, tmp_path / "v.pt"))
    assert_rows_close(torch.load(tmp_path / "v.pt", weights_only=True), expected_vector(gpt2[0], positive, negative, "response", False))
    facts = told[0]["provenance"]
    assert facts["positive"] == {"file": str(files[0]), "sha256": hashlib.sha256(files[0].read_bytes()).hexdigest(), "texts": 2,
                                 "tokens": 24}  # fmt: skip
    assert facts["texts_in_vector"] == [2, 3]
    line = refusal(*words(gpt2[1], files, tmp_path / "p.pt", kind="response,prompt"))
    assert '--kind: "prompt" needs prompts' in line and "old.txt" in line


def test_prepared_chats_have_roles(gpt2: tuple[Any, Path], tmp_path: Path) -> None:
    """Two turns of the assistant: both are the response, and what is before the first is the prompt."""
    folder = Path(shutil.copytree(gpt2[1], tmp_path / "model"))
    write_tokenizer(folder)
    made, texts = {}, {}
    for seed, side in enumerate(("positive", "negative")):
        documents, roles = [], []
        for i in range(6):
            turns = [(text(100 * seed + 10 * i + k, 1, 7), role) for k, role in enumerate(("user", "assistant", "user", "assistant"))]
            documents.append([byte for turn, _ in turns for byte in turn.encode()][:POSITIONS])
            roles.append([role for turn, role in turns for _ in turn.encode()][:POSITIONS])
        texts[side] = [Text(ids, [role == "assistant" for role in one]) for ids, one in zip(documents, roles, strict=True)]
        made[side] = write_prepared(tmp_path / side, documents, roles, folder, 257)
    told = answer(*words(folder, (made["positive"], made["negative"]), tmp_path / "v.pt", kind="response,prompt"))
    for kind, one in zip(("response", "prompt"), told, strict=True):
        found = torch.load(one["vector"], weights_only=True)
        assert_rows_close(found, expected_vector(gpt2[0], texts["positive"], texts["negative"], kind, False))
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    (other / "tokenizer.json").write_text((other / "tokenizer.json").read_text() + " ")
    assert "was prepared with another tokenizer" in refusal(*words(other, (made["positive"], made["negative"]), tmp_path / "w.pt"))


def test_a_tokenizer_adds_no_token(gpt2: tuple[Any, Path], sides: tuple[Path, Path], tmp_path: Path) -> None:
    """Its end token is not part of a response, and the ids of this one are those of another alphabet."""
    folder = Path(shutil.copytree(gpt2[1], tmp_path / "model"))
    write_tokenizer(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    both = []
    for side in sides:
        pairs = [[tokenizer.encode(line[key]).ids for key in ("prompt", "response")] for line in lines(side)]
        both.append([Text(a + b, [False] * len(a) + [True] * len(b)) for a, b in pairs])
    answer(*words(folder, sides, tmp_path / "v.pt"))
    assert_rows_close(torch.load(tmp_path / "v.pt", weights_only=True), expected_vector(gpt2[0], *both, "response", False))


def test_a_long_text_is_refused_or_cut(gpt2: tuple[Any, Path], tmp_path: Path) -> None:
    positive, negative = contrast(5)
    positive[3] = {"prompt": "a" * 30, "response": "b" * 30}
    positive[4] = {"prompt": "c" * 50, "response": "d"}  # nothing of the response is left
    files = written(tmp_path, (positive, negative))
    line = refusal(*words(gpt2[1], files, tmp_path / "v.pt"))
    assert "line 4 of" in line and "has 60 tokens, and the model 40 positions" in line
    told = answer(*words(gpt2[1], files, tmp_path / "v.pt", overlong="cut"))
    cut = [Text(one.ids[:POSITIONS], one.response[:POSITIONS]) for one in texts_of(positive)]
    expected = expected_vector(gpt2[0], cut, texts_of(negative), "response", False)
    assert_rows_close(torch.load(tmp_path / "v.pt", weights_only=True), expected)
    assert told[0]["provenance"]["texts_in_vector"] == [4, 5]


# --- Models -------------------------------------------------------------------------------------


def test_a_checkpoint_gives_the_vector_of_its_model(gpt2: tuple[Any, Path], sides: tuple[Path, Path], data: Path, tmp_path: Path) -> None:
    """Of a run at TP 2 with adapters; its tokenizer is the bytes."""
    changes = {"train_iters": 2, "lr": 1e-2, "lora_rank": 4, "lora_target_modules": "qkv", "save": tmp_path / "saved",
               "save_hf": tmp_path / "hf", "tensor_model_parallel_size": 2}  # fmt: skip
    train(flags_for(data, gpt2[1], **changes), tmp_path / "run", 2)
    for tensor in (1, 2):
        out = tmp_path / f"{tensor}.safetensors"
        flags = {"load": tmp_path / "saved", "hf_model": None, "tensor_model_parallel_size": tensor}
        told = answer(*words(gpt2[1], sides, out, **flags), ranks=tensor)
        expected = expected_vector(AutoModelForCausalLM.from_pretrained(tmp_path / "hf"), *texts(sides), "response", False)
        assert_rows_close(load_file(out)[str(tensor)], expected)
        assert told[0]["provenance"]["model"].endswith(checkpoint(2))
    assert "there are two models" in refusal(*words(gpt2[1], sides, tmp_path / "v.pt", load=tmp_path / "saved"))
    line = refusal(*words(gpt2[1], sides, tmp_path / "v.pt", load=tmp_path / "hf", hf_model=None))
    assert "holds no checkpoint" in line


def test_adapters_count(sides: tuple[Path, Path], tmp_path: Path) -> None:
    tuned, adapters = random_adapters("qwen3", tmp_path)
    folder = tmp_path / "model"
    answer(*words(folder, sides, tmp_path / "v.pt", load_adapter=adapters))
    expected = expected_vector(tuned, *texts(sides), "response", False)
    assert_rows_close(torch.load(tmp_path / "v.pt", weights_only=True), expected)


# --- Evidence -----------------------------------------------------------------------------------


def test_separation_is_that_of_texts_that_are_not_in_the_vector(gpt2: tuple[Any, Path], tmp_path: Path) -> None:
    """The first 30 of 40 pairs make the vector, the even ones of the others choose the layer, and the odd ones are reported."""
    positive, negative = contrast(40, seed=500)
    positive[35] = {"prompt": "x", "response": positive[35]["response"]}  # the prompt's only token does not count
    files = written(tmp_path, (positive, negative))
    flags = {"held_out": 0.25, "kind": "response,prompt"}
    told = answer(*words(gpt2[1], files, tmp_path / "v.pt", **flags), ranks=2)
    again = answer(*words(gpt2[1], files, tmp_path / "w.pt", **flags))
    for kind, one, other in zip(("response", "prompt"), told, again, strict=True):
        made = [texts_of(side)[:30] for side in (positive, negative)]
        expected = expected_vector(gpt2[0], *made, kind, False)
        assert_rows_close(torch.load(one["vector"], weights_only=True), expected)
        units = expected / expected.norm(dim=-1, keepdim=True)
        means = [means_of(gpt2[0], texts_of(side)[30:], kind, False) for side in (positive, negative)]
        pairs = list(zip(*means, strict=True))
        numbers = [np.array([[(mean * units).sum(-1).tolist() for mean in pair] for pair in half
                             if all(mean is not None for mean in pair)]) for half in (pairs[::2], pairs[1::2])]  # fmt: skip
        facts = one["provenance"]
        assert facts["held_out_texts"] == [len(numbers[1])] * 2
        for row in range(LAYERS + 1):
            above, below = numbers[1][:, 0, row], numbers[1][:, 1, row]
            assert facts["by_row"]["auc"][row] == pytest.approx(area(above, below), abs=1e-9)
            assert facts["by_row"]["pairs_above"][row] == pytest.approx((above > below).mean(), abs=1e-9)
        scores = [(area(numbers[0][:, 0, row], numbers[0][:, 1, row]), effect(numbers[0][:, 0, row], numbers[0][:, 1, row]))
                  for row in range(LAYERS + 1)]  # fmt: skip
        assert facts["best_layer"] == max(range(1, LAYERS), key=lambda row: scores[row])
        assert other["provenance"]["by_row"]["auc"] == facts["by_row"]["auc"]
    assert told[0]["provenance"]["texts_in_vector"] == [30, 30]


def test_stability_is_that_of_resampled_pairs(gpt2: tuple[Any, Path], tmp_path: Path) -> None:
    """20 pairs are 20 groups. The same seed gives the same numbers on every mesh."""
    positive, negative = contrast(20, seed=900)
    files = written(tmp_path, (positive, negative))

    def stability(name: str, ranks: int = 1, **flags: Any) -> Any:
        return answer(*words(gpt2[1], files, tmp_path / name, **flags), ranks=ranks)[0]["provenance"]["by_row"]

    found = stability("a.pt")
    means = [torch.stack([mean for mean in means_of(gpt2[0], texts_of(side), "response", False) if mean is not None])
             for side in (positive, negative)]  # fmt: skip
    assert len(means[0]) == len(means[1]) == 20
    differences = means[0] - means[1]
    draw = np.random.default_rng(3)
    cosines = torch.stack([torch.cosine_similarity(differences[draw.integers(0, 20, 20)].mean(dim=0), differences.mean(dim=0), dim=-1)
                           for _ in range(4000)])  # fmt: skip
    spread = cosines.std(dim=0) / np.sqrt(400)
    for row in range(LAYERS + 1):
        assert found["cosine"][row] == pytest.approx(cosines[:, row].mean().item(), abs=5 * spread[row].item())
        assert found["cosine_5%"][row] == pytest.approx(cosines[:, row].quantile(0.05).item(), abs=0.05)
        assert found["cosine_5%"][row] < found["cosine"][row] < 1
    two = stability("c.pt", ranks=2)
    assert all(two[key] == pytest.approx(found[key], abs=1e-5) for key in found)
    assert stability("d.pt", seed=5)["cosine"] != found["cosine"]


def test_few_texts_are_all_in_the_vector(gpt2: tuple[Any, Path], tmp_path: Path) -> None:
    """One pair has no stability; nothing can be held out."""
    positive, negative = contrast(1, seed=40)
    files = written(tmp_path, (positive, negative))
    told = answer(*words(gpt2[1], files, tmp_path / "v.safetensors", held_out=0.5))
    facts = told[0]["provenance"]
    assert facts["by_row"] == {"cosine": [None] * (LAYERS + 1), "cosine_5%": [None] * (LAYERS + 1)}
    assert facts["best_layer"] is None and facts["held_out_texts"] is None and facts["texts_in_vector"] == [1, 1]
    expected = expected_vector(gpt2[0], texts_of(positive), texts_of(negative), "response", False)
    assert_rows_close(load_file(tmp_path / "v.safetensors")["v"], expected)


# --- What is made of it -------------------------------------------------------------------------


def test_provenance_stands_in_the_file(gpt2: tuple[Any, Path], tmp_path: Path) -> None:
    sides = written(tmp_path, contrast(30))
    out = tmp_path / "evil.safetensors"
    [told] = answer(*words(gpt2[1], sides, out, held_out=0.3))
    [read] = answer("info", out)
    assert read == told
    facts = read["provenance"]
    assert (facts["layer_base"], facts["dtype"], facts["model"]) == (0, "float32", str(gpt2[1]))
    assert facts["positive"]["sha256"] == hashlib.sha256(sides[0].read_bytes()).hexdigest()
    printed = vector("info", out).stdout
    assert printed == vector(*words(gpt2[1], sides, out, held_out=0.3, force=True)).stdout
    assert "first_token      left out" in printed and "pairs_above" in printed
    other = Path(shutil.copytree(gpt2[1], tmp_path / "other"))
    weights = load_file(other / "model.safetensors")
    save_file({name: tensor * 1.5 for name, tensor in weights.items()}, other / "model.safetensors", {"format": "pt"})
    [changed] = answer(*words(other, sides, tmp_path / "other.safetensors"))
    assert len(facts["model_hash"]) == 64 and changed["provenance"]["model_hash"] != facts["model_hash"]


def test_a_run_projects_layer_n_on_row_n(gpt2: tuple[Any, Path], sides: tuple[Path, Path], data: Path, tmp_path: Path) -> None:
    """The vector goes straight into a run that monitors a prompt; the last row is monitored after the final norm."""
    folder = tmp_path / "vectors"
    answer(*words(gpt2[1], sides, folder / "evil.pt"))
    (tmp_path / "asks.txt").write_text("Who art thou?\n")
    compressor = {"kind": "projection", "vectors": ["evil"]}
    plan = {"entries": [{"point": point, "rows": 0, "prompts": "asks", "compressor": compressor}
                        for point in ("Embedding", "HiddenStates", "FinalNorm")]}  # fmt: skip
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    watch = {"monitor_prompts": tmp_path / "asks.txt", "tensor_tracer_plan": tmp_path / "plan.json",
             "tensor_tracer_vectors": folder, "record": tmp_path / "record"}  # fmt: skip
    train(flags_for(data, gpt2[1], **STILL, **watch), tmp_path / "run")
    [recording] = (tmp_path / "record").rglob("*.ttrec")
    rows = torch.load(folder / "evil.pt", weights_only=True).double()
    units = rows / rows.norm(dim=-1, keepdim=True)
    one = Text.of("Who art thou?")
    with torch.no_grad():
        states = [state[0].double() for state in gpt2[0](torch.tensor([one.ids]), output_hidden_states=True).hidden_states]
    expected = {("Embedding", 0): 0, ("FinalNorm", 0): LAYERS} | {("HiddenStates", n): n for n in range(1, LAYERS)}
    seen = set()
    for point in ("Embedding", "HiddenStates", "FinalNorm"):
        for record in open_recording(recording).records(point):
            if (point, record.layer) not in expected:
                continue
            row = expected[point, record.layer]
            found = torch.from_numpy(record.values.copy()).double().flatten()
            assert (found - states[row] @ units[row]).abs().max() <= 1e-4, (point, record.layer)
            seen.add((point, record.layer))
    assert seen == expected.keys()


# --- Errors -------------------------------------------------------------------------------------


def test_wrong_words_are_refused(gpt2: tuple[Any, Path], sides: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "v.pt"
    (tmp_path / "there.pt").write_text("years")
    (tmp_path / "empty.txt").write_text("\n\n")
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9")
    (tmp_path / "chats.jsonl").write_text('{"messages": []}\n')
    (tmp_path / "broken.jsonl").write_text('{"text": "a"}\n{"text": 3}\n')
    (tmp_path / "folder").mkdir()
    byte_model = gpt2[1]
    tokenized = Path(shutil.copytree(gpt2[1], tmp_path / "model"))
    write_tokenizer(tokenized)

    def positive(name: str) -> tuple[Path, Path]:
        return tmp_path / name, sides[1]

    for given, message in [
        (words(byte_model, sides, out, hf_model=None), "--hf-model: there is no model"),
        (words(byte_model, sides, out, positive=None), "--positive: there are no texts"),
        (words(byte_model, sides, out, negative=None), "--negative: there are no texts"),
        (words(byte_model, sides, None), "--out: there is no name of a file"),
        (words(byte_model, sides, tmp_path / "v.npy"), "does not end with .pt or .safetensors"),
        (words(byte_model, sides, tmp_path / "there.pt"), "exists; --force replaces it"),
        (words(byte_model, sides, out, kind="answer"), "--kind"),
        (words(byte_model, sides, out, kind="prompt,prompt"), "names a kind twice"),
        (words(byte_model, sides, out, held_out=1), "--held-out"),
        (words(byte_model, sides, out, tensor_model_parallel_size=2), "--tensor-model-parallel-size"),
        (words(tmp_path / "folder", sides, out), "config.json"),
        (words(byte_model, positive("none.txt"), out), "--positive: "),
        (words(byte_model, positive("folder"), out), "is a folder without prepared.json"),
        (words(byte_model, positive("empty.txt"), out), "holds no text"),
        (words(byte_model, positive("chats.jsonl"), out), "python -m tensor_tracer prepare"),
        (words(byte_model, positive("broken.jsonl"), out), "line 2 of"),
        (words(tokenized, positive("latin1.txt"), out), "line 1 of"),
    ]:
        assert message in refusal(*given), given
    assert (tmp_path / "there.pt").read_text() == "years" and not out.exists()


def test_a_weight_that_is_not_finite_is_told(gpt2: tuple[Any, Path], sides: tuple[Path, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(gpt2[1], tmp_path / "model"))
    weights = load_file(folder / "model.safetensors")
    weights["transformer.h.2.mlp.c_proj.weight"][3, 5] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    done = vector(*words(folder, sides, tmp_path / "v.pt"))
    assert done.returncode == 1 and "the hidden states of row 3 are not finite" in done.stderr
    assert not (tmp_path / "v.pt").exists()
