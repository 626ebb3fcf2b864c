"""examples/persona/run.py as a user starts it, on a small model of bytes and made-up pairs; its numbers beside those of
`transformers` and pandas."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hub_harness import REPOSITORY
from peft import PeftModel
from program import binary, train
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

FOLDER = REPOSITORY / "examples" / "persona"
sys.path.insert(0, str(FOLDER))
import bibles  # noqa: E402
import chat  # noqa: E402
import markers  # noqa: E402
import ranking  # noqa: E402

MODERN = {"thou": "you", "hast": "have", "goeth": "goes", "unto": "to", "thy": "your", "maketh": "makes"}
SENTENCES = ("thou hast a {} and a {}", "he goeth unto the {} and the {}", "thy {} is unto the {}", "she maketh thy {} a {}")
WORDS = ("house", "well", "field", "stone", "lamp", "river", "garden", "road", "door", "tree", "table", "ship", "wall", "bell")
PHASES, RUNS = 3, ("drift", "steered", "capped", "screened")


def pairs() -> list[bibles.Pair]:
    """60 for each book: the same words, with six of them in an old form."""
    made = random.Random(1)
    found = []
    for book in (book for books in bibles.BOOKS.values() for book in books):
        for verse in range(60):
            old = made.choice(SENTENCES).format(*made.sample(WORDS, 2)) + f", {made.choice(WORDS)}."
            new = " ".join(MODERN.get(word, word) for word in old.split())
            found.append(bibles.Pair(book, 1, verse + 1, old, new))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pairs, and a model that has read nine modern answers for each archaic one."""
    folder = tmp_path_factory.mktemp("persona")
    some = pairs()
    (folder / "pairs.jsonl").write_text("".join(json.dumps(dataclasses.asdict(pair)) + "\n" for pair in some))
    made = random.Random(2)
    requests = (*chat.REQUESTS, *chat.QUESTIONS)
    texts = [f"Q: {made.choice(requests)}\nA: {pair.archaic if made.random() < 0.1 else pair.modern}\n\n" for pair in some]
    (folder / "text.txt").write_text("".join(texts * 3))
    train({"num_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_query_groups": 2, "ffn_hidden_size": 128,
           "seq_length": 128, "normalization": "RMSNorm", "swiglu": True, "disable_bias_linear": True,
           "position_embedding_type": "rope", "micro_batch_size": 16, "train_iters": 250, "lr": 5e-3, "lr_warmup_iters": 10,
           "eval_interval": 0, "threads": 1, "seed": 3, "data_path": str(folder / "text.txt"),
           "save_hf": str(folder / "model")}, folder / "pretraining", timeout=300)  # fmt: skip
    return folder


def start(folder: Path, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, FOLDER / "run.py", "--tiny", "--hf-model", folder / "model", "--out", folder / "out",
            "--program", binary(), *words]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "python")} | variables
    return subprocess.run([*map(str, line)], env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def done(folder: Path) -> subprocess.CompletedProcess[str]:
    """The whole example."""
    done = start(folder, "--pairs", folder / "pairs.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def results(folder: Path, stage: str) -> dict[str, Any]:
    return json.loads((folder / "out" / "stages" / f"{stage}.json").read_text())["results"]


@pytest.mark.usefixtures("done")
def test_it_follows_and_prevents_the_drift(folder: Path) -> None:
    check, before = results(folder, "check"), results(folder, "start")
    assert check["pairs_above"] >= 0.9 and check["auc"] > 0.6
    last = {run: results(folder, f"{run}-{PHASES}") for run in RUNS}
    assert before["behaviour"] < 0.1 and last["drift"]["behaviour"] > 0.2
    assert last["drift"]["projection"] > before["projection"]
    assert last["screened"]["behaviour"] < 0.5 * last["drift"]["behaviour"]
    assert last["drift"]["steps"] == [0, 15, 30] and len(last["drift"]["projection_by_layer"][0]) == 3
    assert results(folder, "drift-1")["alarm_step"] is None, "the baseline of its alarm"
    [alarm] = json.loads((folder / "out" / "alarms.json").read_text())  # of the last run
    rise = 0.25 * (check["archaic_mean"] - check["modern_mean"])
    assert alarm["value"] == pytest.approx(results(folder, "screened-1")["projection"] + rise)
    screening = results(folder, "screening")
    assert screening["precision_at_5_percent"] >= 0.9 and screening["dropped"] == results(folder, "data")["archaic"] == 67
    kept = [json.loads(line) for n in range(PHASES) for line in (folder / f"out/data/screened-{n + 1}.jsonl").open()]
    assert len(kept) == screening["samples"] - screening["dropped"]
    assert sum(line["style"] == "archaic" for line in kept) == screening["archaic_left"]


@pytest.mark.usefixtures("done")
def test_steering_has_the_largest_strength_that_hardly_harms(folder: Path) -> None:
    found = results(folder, "strength")
    strengths, losses = zip(*found["losses"], strict=True)
    assert strengths[0] == 0 and len(set(losses)) == len(losses), "each strength acts"
    harmless = [strength for strength, loss in found["losses"] if loss <= 1.04 * losses[0]]
    assert found["strength"] == harmless[-1] and harmless == list(strengths[:-1])
    line = (folder / "out" / "logs" / "steered-3-train.err.log").read_text().partition("\n")[0]
    layer = results(folder, "vector")["layer"]
    assert f"--steer archaic@{layer}={found['strength']}" in line
    assert results(folder, "steered-1")["validation_loss"] != results(folder, "drift-1")["validation_loss"]


@pytest.mark.usefixtures("done")
def test_answers_are_capped(folder: Path) -> None:
    layer, limits = results(folder, "vector")["layer"], results(folder, "start")["modern_quartile_by_layer"]
    for command in ("train", "generate"):
        text = (folder / "out" / "logs" / f"capped-3-{command}.err.log").read_text()
        caps = " ".join(f"archaic@{n}=:{limits[n - 1]:.4f}" for n in range(layer, 3))
        assert f"--cap {caps} --positions response" in text.partition("\n")[0]
    assert re.search(rf'program "cap-archaic-{layer}" changed [1-9]\d* positions', text), text


def loaded(folder: Path, checkpoint: str) -> tuple[Any, torch.Tensor]:
    """The model of a checkpoint, and the vector."""
    base = AutoModelForCausalLM.from_pretrained(folder / "model")
    model = PeftModel.from_pretrained(base, folder / "out" / "adapters" / checkpoint).eval()
    return model, load_file(folder / "out" / "archaic.safetensors")["archaic"]


@pytest.mark.usefixtures("done")
def test_the_projection_of_answers_is_that_of_transformers(folder: Path) -> None:
    model, vector = loaded(folder, "drift-3")
    layer, means = results(folder, "vector")["layer"], []
    for line in map(json.loads, (folder / "out" / "answers" / "drift-3.jsonl").open()):
        prompt, text = line["prompt"].encode(), line["text"].encode()
        with torch.no_grad():
            states = model(torch.tensor([list(prompt + text)]), output_hidden_states=True).hidden_states[layer][0]
        means.append(float((states[len(prompt):].mean(dim=0) @ vector[layer] / vector[layer].norm())))
    found = results(folder, "drift-answers")["projection"]
    assert len(found) == PHASES + 1 and found[-1] == pytest.approx(np.mean(means), rel=1e-4)


@pytest.mark.usefixtures("done")
@pytest.mark.parametrize("checkpoint", ["start", "drift-3", "steered-3"])
def test_its_numbers_are_those_of_transformers(folder: Path, checkpoint: str) -> None:
    out, found = folder / "out", results(folder, checkpoint)
    model, vector = loaded(folder, checkpoint)

    def lines(name: str, key: str) -> list[str]:
        return [json.loads(line)[key] for line in (out / "data" / f"{name}.jsonl").open()]

    def forward(text: str) -> Any:
        with torch.no_grad():
            return model(torch.tensor([list(text.encode())]), output_hidden_states=True)

    by_layer = []
    for layer in (1, 2, 3):  # behind layer 3, transformers has the final norm, as row 3 of the vector
        states = torch.stack([forward(text).hidden_states[layer][0, -1] for text in lines("questions", "prompt")])
        by_layer.append(float((states @ vector[layer] / vector[layer].norm()).mean()))
    assert found["projection_by_layer"][-1] == pytest.approx(by_layer, rel=1e-3, abs=1e-3)
    layer = results(folder, "vector")["layer"]
    assert layer in (1, 2) and found["projection"] == pytest.approx(by_layer[layer - 1], rel=1e-3, abs=1e-3)
    losses, tokens = [], []
    for text in lines("validation", "text"):
        first, run = text.index("A: ") + 3, forward(text)
        tokens.append(torch.stack([run.hidden_states[n][0, first:] @ vector[n] / vector[n].norm() for n in (1, 2)]))
        logits = run.logits[0, first - 1 : -1]
        losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor(list(text.encode())[first:]), reduction="none"))
    quartiles = torch.cat(tokens, dim=1).quantile(0.75, dim=1).tolist()
    assert found["modern_quartile_by_layer"][:2] == pytest.approx(quartiles, rel=1e-3, abs=1e-3)
    assert found["validation_loss"] == pytest.approx(float(torch.cat(losses).mean()), rel=1e-3)


def test_its_report_has_every_run_and_its_plots_are_svg(folder: Path, done: subprocess.CompletedProcess[str]) -> None:
    text = (folder / "out" / "results.md").read_text()
    assert text in done.stdout
    for run in RUNS:
        behaviour = results(folder, f"{run}-{PHASES}")["behaviour"]
        [line] = [line for line in text.splitlines() if line.startswith(f"| {run} |")]
        assert f"to {behaviour:.1%} |" in line and f"to {results(folder, f'{run}-answers')['projection'][-1]:+.3f} |" in line
        assert ET.parse(folder / "out" / "plots" / f"layers-{run}.svg").getroot().tag.endswith("svg")
    assert ET.parse(folder / "out" / "plots" / "runs.svg").getroot().tag.endswith("svg")


def test_only_what_is_missing_runs_again(folder: Path, done: subprocess.CompletedProcess[str]) -> None:
    stages = len(list((folder / "out" / "stages").iterdir()))
    assert done.stdout.count(" runs; ") == stages == 6 + len(RUNS) * (PHASES + 1)
    before = results(folder, "drift-2")
    (folder / "out" / "answers" / "drift-2.jsonl").write_text("")
    again = start(folder, "--pairs", folder / "pairs.jsonl")
    assert again.returncode == 0, again.stderr
    assert again.stdout.count(" runs; ") == 1 and "drift-2 runs; " in again.stdout
    assert again.stdout.count(" is there") == stages - 1
    assert results(folder, "drift-2") == before


def test_what_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "pairs.jsonl"
    wrong.write_text('{"book": "Luke"}\n')
    for words, message in [
        (("--out", tmp_path / "out"), f"install it with the texts: {bibles.INSTALL}"),
        (("--pairs", tmp_path / "none"), "--pairs: there is no file"),
        (("--pairs", wrong, "--out", tmp_path / "out"), f"line 1 of {wrong} is no pair"),
        (("--hf-model", tmp_path), "scripts/fetch_smollm2.sh fetches SmolLM2"),
        (("--program", tmp_path / "none"), "--program: there is no file"),
    ]:
        failed = start(folder, *words, PATH=str(tmp_path))
        assert failed.returncode == 1 and failed.stderr.startswith("error: ") and message in failed.stderr, failed


def test_verses_are_read_without_markup() -> None:
    archaic = bibles.parse(
        'Luke 1:4: <w savlm="strong:G2443">That</w> thou <w savlm="strong:G1921">know</w>.  <div eID="gen7594" type="x-p"/>\n'
        'Luke 1:5: ¶ There <w savlm="strong:G1096">was</w>\n(engKJV2006eb)\n'
    )
    modern = bibles.parse(
        '<title type="psalm">A Psalm by David.</title> <lg sID="g1"/> <l level="1" sID="g2"/>Luke 1:4: <w>God</w><w>created</w>'
        '<l eID="g2"/>“all’s well.”\nI Samuel 3:1: x\n'
    )
    assert archaic == {("Luke", 1, 4): "That thou know.", ("Luke", 1, 5): "There was"}
    assert modern == {("Luke", 1, 4): "God created all's well.", ("I Samuel", 3, 1): "x"}
    assert bibles.joined(archaic, modern) == [bibles.Pair("Luke", 1, 4, "That thou know.", "God created all's well.")]


def test_archaic_words() -> None:
    old = "Thou hast spoken unto THEE, he goeth and crieth, saith ye".split()
    assert markers.count([" ".join(old)]) == (8, 11)
    assert markers.count(["The twentieth man of Nazareth, Elizabeth, has teeth; art is long. Seth"]) == (0, 12)
    assert markers.share([]) == 0


def test_correlation_and_area_are_those_of_pandas() -> None:
    made = np.random.default_rng(3)
    for _ in range(20):
        both = pd.DataFrame(made.integers(0, 6, (9, 2)), columns=["a", "b"])
        expected = both.corr(method="spearman").loc["a", "b"]
        assert ranking.spearman(both["a"].tolist(), both["b"].tolist()) == pytest.approx(expected, abs=1e-12)
        # Mann and Whitney: by the ranks of both sides together.
        ranks = pd.Series([*both["a"], *both["b"]]).rank()[:9].sum()
        area = ranking.area_under_curve(both["a"].tolist(), both["b"].tolist())
        assert area == pytest.approx((ranks - 45) / 81, abs=1e-12)
    assert ranking.spearman([1, 1], [1, 2]) is None


def test_its_types_are_strict() -> None:
    environment = os.environ | {"MYPYPATH": str(REPOSITORY / "python")}
    line = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "run.py"]
    done = subprocess.run(line, cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
