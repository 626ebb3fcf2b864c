"""Prompts in attached trainings: their records beside what plain hooks keep of the same weights in one process, and
trainings whose prompts are refused or fail."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import attached_prompts as scenarios
import pytest
import torch
from attached_training import VOCABULARY, Witness, make_model
from forked_ranks import Ranks, run_ranks
from graphs import write_world
from program import REPOSITORY
from small_llama import HEAD_SIZE, rotated
from tensor_tracer import open_recording
from tensor_tracer.attaching.prompts import PromptModel, PromptOptions
from test_attach_safety import environment, options, records
from torch import Tensor, nn

pytestmark = pytest.mark.nightly(suite="attach")

SMOKE = pytest.mark.smoke
TYPED = 0xFFFFFFFF
EVERY: dict[str, Any] = {"rows": 0, "compressor": {"kind": "none"}}
WATCHED: dict[str, Any] = {"entries": [
    {"point": "InputTokens"}, {"point": "HiddenStates", "compressor": {"kind": "none"}},
    {"point": "Logits", "compressor": {"kind": "none"}}, {"point": "Logits", "compressor": {"kind": "topk", "k": 3}},
]}  # fmt: skip
MONITORED = {"entries": [{"point": name, "prompts": "prompts", **EVERY} for name in ("HiddenStates", "Logits")]}
TEXTS = ["abc", "hello", "zyxwvutsrqpo"]
SCORES = {"point": "RawAttentionScore", "compressor": {"kind": "none"}}
DOUBLED = 'when(phase="train")\nlayers[2].output *= 2'
LAYERS = {"plain": "blocks", "gpt2": "transformer.h", "llama": "model.layers", "sequence": "h"}
INTERVAL = 2
LETTERS = scenarios.Letters()


def ids_of(text: str) -> list[int]:
    return LETTERS.encode(text)


def filled(texts: list[str]) -> Tensor:
    """[texts, tokens of the longest]"""
    rows = [torch.tensor(ids_of(text)) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def computed(
    kind: str, wrap: str, weights: dict[str, Tensor], texts: list[str], doubled: bool
) -> dict[tuple[str, int], Tensor]:  # fmt: skip
    """Of HiddenStates and Logits, and of the attention of `sequence`: what the model computes in one process.
    `doubled`: as the program says."""
    model = make_model(kind, "none", "cpu")
    model.load_state_dict(weights, strict=False)
    model.eval()
    layer = model.get_submodule(f"{LAYERS[kind]}.1")
    if doubled:
        layer.register_forward_hook(lambda _module, _args, output: (
            output * 2 if isinstance(output, Tensor) else (output[0] * 2, *output[1:])
        ))  # fmt: skip
    witness = Witness(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=wrap == "autocast"):
        model(filled(texts))
    layers = range(1, len(model.get_submodule(LAYERS[kind])) + 1)  # type: ignore[arg-type]
    found = {("HiddenStates", n): witness.values[0, 0, f"{LAYERS[kind]}.{n - 1}"] for n in layers}
    if kind == "sequence":
        found |= {("RawAttentionScore", n): attention_of(witness, f"h.{n - 1}.self_attn") for n in layers}
    return found | {("Logits", 0): witness.values[0, 0, ""]}


def attention_of(witness: Witness, path: str) -> Tensor:
    """[batch, heads, queries, keys], by the definition."""
    query, key = (
        rotated(witness.values[0, 0, f"{path}.{name}_proj"].unflatten(2, (-1, HEAD_SIZE)).transpose(1, 2))
        for name in ("q", "k")
    )
    scores = query @ key.mT / HEAD_SIZE**0.5
    return scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf).softmax(-1)


def compare(found: dict[str, Any], row: int, expected: dict[tuple[str, int], Tensor]) -> None:
    wanted = expected[found["point"], found["layer"]][0]
    values = torch.from_numpy(found["values"].copy())[row, : wanted.shape[0]]
    assert (values - wanted.float()).abs().max() <= 1e-5 * wanted.abs().max(), found


def compare_typed(kind: str, wrap: str, result: dict[str, Any], weights: dict[int, dict[str, Tensor]]) -> None:
    off, on = result["off"], result["on"]
    points = ["InputTokens", "Logits", "LogitLens", "HiddenStates", "RawAttentionScore"]
    missing = {"LogitLens", "RawAttentionScore"} if kind == "plain" else {"LogitLens"} if wrap == "fsdp1" else set()
    assert result["default"] == [point for point in points if point not in missing]
    assert set(off["records"]) == {"off"} and set(on["records"]) == {"off", "on"}
    assert on["programs"] == [{"name": "double", "acted": True, "failed": 0, "waiting": 0}]
    for side, answer in (("off", off), ("off", on), ("on", on)):
        compare_answer(kind, wrap, answer, side, weights)


def compare_answer(
    kind: str, wrap: str, answer: dict[str, Any], side: str, weights: dict[int, dict[str, Tensor]]
) -> None:  # fmt: skip
    step, ids = answer["step"], ids_of(TEXTS[1])
    assert answer["tokens"] == ids
    expected = computed(kind, wrap, weights[step], [TEXTS[1]], side == "on")
    kept = answer["records"][side]
    assert {(one["step"], one["phase"], one["prompt_set"]) for one in kept} == {(step, "eval", TYPED)}
    assert {(one["point"], one["layer"]) for one in kept} == {*expected, ("InputTokens", 0)}
    for one in kept:
        if one["point"] == "InputTokens":
            assert one["values"][0].reshape(-1).tolist() == ids
        elif one["compressor"] == "topk":
            best = expected["Logits", 0].topk(3)
            numbers, columns, *_, target = (torch.from_numpy(plane.copy()) for plane in one["values"])
            assert torch.allclose(numbers.float(), best.values.float(), rtol=1e-4)
            assert torch.equal(columns.long(), best.indices)
            assert target[0, :, 0].tolist() == [*ids[1:], -1]
        else:
            assert one["values"].shape == expected[one["point"], one["layer"]].shape
            compare(one, 0, expected)


def compare_preview(kind: str, wrap: str, result: dict[str, Any], weights: dict[int, dict[str, Tensor]]) -> None:
    """The set of attach(), without and with the program, and what the program changes in it."""
    preview, bare = result["preview"], result["bare"]
    step = preview["step"]
    assert preview["batches"] == [] and "notes" not in preview and "records" not in bare
    for side in ("off", "on"):
        kept = preview["records"][side]
        assert {(one["step"], one["phase"], one["prompt_set"]) for one in kept} == {(step, "eval", 1)}
        rows = {(one["point"], one["layer"], one["first_row"] + row) for one in kept for row in range(len(one["values"]))}
        expected = [computed(kind, wrap, weights[step], [text], side == "on") for text in TEXTS]
        assert rows == {(*place, row) for row, of_text in enumerate(expected) for place in of_text}
        for one in kept:
            for row in range(len(one["values"])):
                compare(one, row, expected[one["first_row"] + row])
    doubled = computed(kind, wrap, weights[step], TEXTS, doubled=False)["HiddenStates", 2].double()
    for answer in (preview, bare):
        (write,) = answer["writes"]
        assert write["place"] == "layers[2].output" and write["positions"] == doubled.shape[0] * doubled.shape[1]
        assert write["norm_before"] == pytest.approx(float(doubled.norm()), rel=1e-5)
        assert write["norm_change"] == write["norm_before"]


def compare_monitored(
    kind: str, wrap: str, folder: Path, weights: dict[int, dict[str, Tensor]], result: dict[str, Any],
    of_attach: list[str],
) -> None:  # fmt: skip
    """The sets of attach() in every second step, and the kept one between its first step and its last."""
    kept_steps = set()
    compared = set()
    for one in scenarios.kept_of(records(folder)):
        texts = of_attach if one["prompt_set"] == 1 else [TEXTS[1]]
        assert one["prompt_set"] in (1, 2) and one["step"] % INTERVAL == 0 and one["phase"] == "eval"
        kept_steps |= {one["step"]} if one["prompt_set"] == 2 else set()
        if one["compressor"] == "topk" or one["point"] == "InputTokens":
            continue
        assert one["values"].shape[1] == filled(texts).shape[1] or one["point"] == "RawAttentionScore"
        for row in range(one["values"].shape[0]):
            text = texts[one["first_row"] + row]
            compare(one, row, computed(kind, wrap, weights[one["step"]], [text], doubled=False))
            compared.add((one["prompt_set"], one["point"], one["layer"], one["step"], text))
    assert kept_steps == {n for n in range(result["kept"], result["removed"]) if n % INTERVAL == 0} != set()
    steps = {step for number, _, _, step, _ in compared if number == 1}
    assert len(steps) >= 2 and len(compared) >= len(steps) * len(of_attach) * 4


CASES = [
    pytest.param("gpt2", "ddp", 2, 0.1, id="gpt2-ddp", marks=SMOKE),
    pytest.param("plain", "autocast", 1, 0.0, id="autocast"),
    pytest.param("llama", "fsdp", 2, 0.0, id="llama-fsdp"),
    pytest.param("gpt2", "fsdp1", 2, 0.0, id="gpt2-fsdp1"),
    pytest.param("llama", "tp", 2, 0.0, id="llama-tp", marks=SMOKE),
]


@pytest.mark.parametrize(("kind", "wrap", "ranks", "dropout"), CASES)
def test_prompts_equal_a_forward_of_the_same_weights_and_change_no_bit_of_the_losses(
    kind: str, wrap: str, ranks: int, dropout: float, tmp_path: Path
) -> None:
    attach = options(tmp_path, plan=MONITORED, prompts=TEXTS, prompt_interval=INTERVAL)
    arguments = attach, kind, wrap, dropout, TEXTS[1], WATCHED, DOUBLED
    watched = run_ranks(scenarios.prompted, ranks, tmp_path / "with", *arguments, env=environment(tmp_path))
    first = watched[0]
    compare_typed(kind, wrap, first["result"], first["weights"])
    compare_preview(kind, wrap, first["result"], first["weights"])
    compare_monitored(kind, wrap, tmp_path, first["weights"], first["result"], TEXTS)
    assert all(one["is_state_kept"] for one in watched)
    assert first["result"]["sets"] == [
        {"name": "prompts", "interval": 2, "prompts": TEXTS, "tokens": [ids_of(text) for text in TEXTS]},
        {"name": "kept", "interval": 2, "prompts": ["hello"], "tokens": [ids_of("hello")], "removed": True},
    ]
    texts = [LETTERS.decode([number]) if number <= 26 else "" for number in range(VOCABULARY)]
    assert first["result"]["tokenizer"] == {"kind": "ids", "texts": texts}
    place = tmp_path / "without"
    steps = len(first["losses"])
    alone = run_ranks(scenarios.alone, ranks, place, kind, wrap, dropout, steps, env=environment(place))
    assert [one["losses"] for one in watched] == alone


@pytest.mark.parametrize(("kind", "wrap", "ranks"), [
    pytest.param("gpt2", "ddp", 2, marks=SMOKE, id="gpt2-ddp"), pytest.param("llama", "tp", 2, id="llama-tp"),
])  # fmt: skip
def test_means_have_the_model_after_the_first_step_as_their_baseline(
    kind: str, wrap: str, ranks: int, tmp_path: Path
) -> None:
    vector = torch.randn(9, 32, generator=torch.Generator().manual_seed(5))
    layers = len(make_model(kind, "none", "cpu").get_submodule(LAYERS[kind]))  # type: ignore[arg-type]
    (tmp_path / "vectors").mkdir()
    torch.save(vector[: layers + 1].clone(), tmp_path / "vectors/evil.pt")
    entry = {"point": "HiddenStates", "prompts": "prompts", "rows": 0, "mean_over": "last-prompt",
             "compressor": {"kind": "projection", "vectors": ["evil"]}}  # fmt: skip
    attach = options(tmp_path, plan={"entries": [entry]}, prompts=TEXTS, prompt_interval=3, vectors=tmp_path / "vectors")
    weights = run_ranks(scenarios.monitored, ranks, tmp_path / "run", attach, kind, wrap, 6, env=environment(tmp_path))[0]
    with open_recording(next((tmp_path / "record").glob("*.ttrec"))) as recording:
        told = {event["detail"]["step"]: event["detail"]["series"] for event in recording.events("projections")}
    expected = {}
    for step in (1, 3, 6):
        states = [computed(kind, wrap, weights[step], [text], doubled=False) for text in TEXTS]
        projected = [[float(of["HiddenStates", n][0, -1] @ vector[n] / vector[n].norm()) for of in states]
                     for n in range(1, layers + 1)]  # fmt: skip
        expected[step] = [sum(one) / len(TEXTS) for one in projected]
    assert told.keys() == expected.keys()
    for step, values in expected.items():
        (series,) = told[step]
        assert series["layers"] == list(range(1, layers + 1))
        assert series["values"] == pytest.approx(values, rel=1e-4, abs=1e-5)
        assert series["baseline"] == pytest.approx(expected[1], rel=1e-4, abs=1e-5)


def test_the_ready_made_program_for_prompts_steers_prompts_alone(tmp_path: Path) -> None:
    """test_attach_nnsight.py has no prompts: there it only shows that the program leaves batches as they are."""
    world = write_world(tmp_path, layers=3, hidden=32)
    program = (REPOSITORY / "configs/interventions/steer_prompt.tti").read_text()
    attach = options(tmp_path, vectors=str(tmp_path / "vectors"))
    env = environment(tmp_path)
    ((losses, answer),) = run_ranks(scenarios.steered, 1, tmp_path, attach, TEXTS[1], program, env=env)
    assert run_ranks(scenarios.alone, 1, tmp_path / "alone", "plain", "none", 0.0, len(losses), env=env) == [losses]
    states = {
        side: {one["layer"]: torch.from_numpy(one["values"].copy()).double() for one in kept}
        for side, kept in answer["records"].items()
    }  # fmt: skip
    assert states["off"].keys() == states["on"].keys() == {1, 2, 3}
    assert all(torch.equal(states["off"][layer], states["on"][layer]) for layer in (1, 2))
    wanted = states["off"][3] + 2.0 * world.vectors["evil"][3]
    assert (states["on"][3] - wanted).abs().max() <= 1e-6 * wanted.abs().max()


def test_with_sequence_parallelism_prompts_are_filled_up_and_no_program_acts_on_them(tmp_path: Path) -> None:
    """No record has the ids that fill a prompt up."""
    attach = options(tmp_path, plan=MONITORED, prompts=TEXTS[:2], prompt_interval=INTERVAL)
    plan = {"entries": [*WATCHED["entries"], SCORES]}
    arguments = attach, TEXTS[1], plan, DOUBLED
    watched = run_ranks(scenarios.filled_up, 2, tmp_path / "with", *arguments, env=environment(tmp_path))
    first = watched[0]
    result = first["result"]
    assert result["default"] == ["InputTokens", "Logits", "HiddenStates", "RawAttentionScore"]
    assert set(result["off"]["records"]) == {"off"} and "programs" not in result["off"]
    says = "with sequence parallelism no program acts on prompts"
    assert all(says in told for told in [*result["off"]["notes"], *result["refusals"]]), result
    assert len(result["off"]["notes"]) == 1
    compare_answer("sequence", "tp", result["off"], "off", first["weights"])
    compare_monitored("sequence", "tp", tmp_path, first["weights"], result, TEXTS[:2])
    assert all(one["is_state_kept"] for one in watched)
    place, steps = tmp_path / "without", len(first["losses"])
    alone = run_ranks(scenarios.alone, 2, place, "sequence", "tp", 0.0, steps, env=environment(place))
    assert [one["losses"] for one in watched] == alone


class Positioned(nn.Module):
    """Keeps the positions that it gets."""

    def forward(self, tokens: Tensor, positions: Tensor | None = None, cache_position: Tensor | None = None) -> None:
        self.given = positions, cache_position


class PartAlone:
    """What a prompt asks the part of a model."""

    def __init__(self, positions: dict[str, tuple[int, ...]]) -> None:
        self.root, self.positions, self.autocast = Positioned(), positions, contextlib.nullcontext

    def run_apart(self, _forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.root(*args, **kwargs)


@pytest.mark.smoke
def test_with_sequence_parallelism_the_model_gets_positions_as_in_the_training() -> None:
    part: Any = PartAlone({"positions": (4, 8), "cache_position": (8,)})
    model = PromptModel(part, PromptOptions(tokenizer=LETTERS), 0, 8)
    assert model.settings(False, False)["problem"] is None
    model.run(None, torch.zeros(2, 8, dtype=torch.int64))
    every = torch.arange(8)
    assert torch.equal(part.root.given[0], every.expand(2, 8)) and torch.equal(part.root.given[1], every)
    part.positions = {"positions": (4, 4)}
    problem = model.settings(False, False)["problem"]
    assert problem["message"] == "the trainer gives `positions` of the model the positions of one rank's tokens"


NONE = "a preview runs the prompts of this run, and there are none"
REFUSED = [
    pytest.param({}, "none", "abc", ["tokenizer: attach() got no tokenizer", "call attach(model, tokenizer=...)"],
                 f"{NONE}: attach() got no tokenizer", id="no-tokenizer", marks=SMOKE),
    pytest.param({"tokenizer": LETTERS}, "none", "abcdefghijklm",
                 ["text: the prompt has 13 tokens, the sequence length is 12"], NONE, id="too-long", marks=SMOKE),
    pytest.param({"tokenizer": "byte"}, "none", "ab",
                 ["tokenizer: the tokenizer gives the id 97, and the model knows 61 ids"], NONE, id="other-ids"),
    pytest.param({"tokenizer": LETTERS}, "none", "a!", ["the tokenizer failed: KeyError('!')"], NONE,
                 id="tokenizer-fails"),
    pytest.param({"tokenizer": LETTERS}, "pipeline", "abc", ["prompts do not run through pipeline stages"],
                 f"{NONE}: prompts do not run through pipeline stages", id="pipeline"),
    pytest.param({"tokenizer": LETTERS}, "contexts", "abc", ["prompts are not divided among context-parallel ranks"],
                 f"{NONE}: prompts are not divided among context-parallel ranks", id="contexts"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "wrap", "text", "says", "of_preview"), REFUSED)
def test_prompts_and_previews_are_refused_with_the_reason(
    more: dict[str, Any], wrap: str, text: str, says: list[str], of_preview: str, tmp_path: Path
) -> None:
    attach = options(tmp_path, plan={"entries": []}, **more)
    ranks = 1 if wrap == "none" else 2
    found = run_ranks(scenarios.refused, ranks, tmp_path, attach, "plain", wrap, text, env=environment(tmp_path))
    refusals, refused_preview = found[0]
    assert len(refusals) == 2
    assert all(one in refusal for refusal in refusals for one in says), refusals
    assert of_preview in refused_preview


FAILURES = [
    pytest.param("plain", "ddp", [1], None, False, id="typed-one-rank", marks=SMOKE),
    pytest.param("plain", "ddp", [0, 1], TEXTS, False, id="monitored"),
    pytest.param("plain", "ddp", [1], TEXTS, True, id="preview"),
    pytest.param("llama", "tp", [0, 1], None, False, id="typed-tp"),
]


@pytest.mark.parametrize(("kind", "wrap", "failing", "texts", "previews"), FAILURES)
def test_a_forward_that_fails_switches_prompts_off_on_all_ranks(
    kind: str, wrap: str, failing: list[int], texts: list[str] | None, previews: bool, tmp_path: Path
) -> None:
    plan = {"entries": [{"point": "HiddenStates", **EVERY}, *(MONITORED["entries"] if texts else [])]}
    interval = 1000 if previews else 1
    attach = options(tmp_path, plan=plan, tokenizer=LETTERS, prompts=texts, prompt_interval=interval)
    place = tmp_path / "with"
    ended = Ranks(scenarios.failing, 2, place, attach, kind, wrap, failing, previews, env=environment(tmp_path)).wait()
    assert [one.exit_code for one in ended] == [0, 0], [one.output for one in ended]
    (losses, refusals), (others, _) = (one.result for one in ended)
    told = "prompts are off, because the model failed on one: "
    for rank, one in enumerate(ended):
        reason = "ZeroDivisionError: no such prompt" if rank in failing else "another rank failed"
        assert one.output.count(f"warning: {told}{reason}") == 1 and "the tracer is off" not in one.output, one.output
    assert all(told in refusal for of_text in refusals for refusal in of_text)
    assert ("[failed]" in refusals[0][0]) == (texts is None or previews) and "[not_allowed]" in refusals[1][0]
    found = records(tmp_path)
    assert {one.prompt_set for one in found} == {0} and max(one.step for one in found) == len(losses)
    env = environment(tmp_path / "without")
    alone = run_ranks(scenarios.alone, 2, tmp_path / "without", kind, wrap, 0.0, len(losses), env=env)
    assert [losses, others] == alone


ERRORS = [
    ({"prompts": ["abc", "abcdefghijklm"]}, "prompts: prompts[1] has 13 tokens, the sequence length is 12"),
    ({"prompts": "/nowhere.txt"}, 'prompts: "/nowhere.txt" '),
    ({"prompts": [3]}, "prompts: not every prompt is a text"),
    ({"prompts": ["abc"], "tokenizer": "ids"}, "tokenizer: attach() got no tokenizer"),
    ({"tokenizer": "words"}, "tokenizer: 'words' is neither 'ids' nor 'byte'"),
    ({"prompt_interval": 0}, "prompt_interval: 0 is not a number of steps"),
]


@pytest.mark.parametrize(("of_rank_0", "says"), ERRORS)
def test_errors_of_the_options_are_those_of_every_rank(
    of_rank_0: dict[str, Any], says: str, tmp_path: Path
) -> None:
    attach = options(tmp_path, plan={"entries": []})
    place = tmp_path / "ranks"
    found = run_ranks(scenarios.attach_error, 2, place, attach, of_rank_0, env=environment(place))
    assert all(says in one for one in found), found


def test_token_text_finds_the_tokens_of_any_tokenizer(tmp_path: Path) -> None:
    work = scenarios.spelled
    attach = options(tmp_path, plan={"entries": []}, port=None)
    watched = run_ranks(work, 2, tmp_path / "ranks", attach, "syllables", env=environment(tmp_path))
    by_hook = run_ranks(work, 2, tmp_path / "alone", None, "", env=environment(tmp_path))
    assert watched == by_hook
    [(refused, why)] = run_ranks(work, 1, tmp_path / "one", attach, "", env=environment(tmp_path))
    assert "this run does not know" in why and "tokenizer" in why and len(refused) == 5
