"""Prompts in attached trainings: their records beside what plain hooks keep of the same weights in one process, and
trainings whose prompts are refused or fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attached_prompts as scenarios
import pytest
import torch
from attached_training import VOCABULARY, Witness, make_model
from forked_ranks import Ranks, run_ranks
from test_attach_safety import environment, options, records
from torch import Tensor

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
DOUBLED = 'when(phase="train")\nlayers[2].output *= 2'
LAYERS = {"plain": "blocks", "gpt2": "transformer.h", "llama": "model.layers"}
INTERVAL = 2
LETTERS = scenarios.Letters()


def ids_of(text: str) -> list[int]:
    return LETTERS.encode(text)


def computed(
    kind: str, wrap: str, weights: dict[str, Tensor], text: str, doubled: bool
) -> dict[tuple[str, int], Tensor]:  # fmt: skip
    """Of HiddenStates and Logits: what the model computes in one process. `doubled`: as the program says."""
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
        model(torch.tensor([ids_of(text)]))
    found = {("HiddenStates", n): witness.values[0, 0, f"{LAYERS[kind]}.{n - 1}"] for n in (1, 2, 3)}
    return found | {("Logits", 0): witness.values[0, 0, ""]}


def compare(found: dict[str, Any], row: int, expected: dict[tuple[str, int], Tensor]) -> None:
    wanted = expected[found["point"], found["layer"]][0]
    values = torch.from_numpy(found["values"].copy())[row, : wanted.shape[0]]
    assert (values - wanted.float()).abs().max() <= 1e-5 * wanted.abs().max(), found


def compare_typed(kind: str, wrap: str, result: dict[str, Any], weights: dict[int, dict[str, Tensor]]) -> None:
    off, on = result["off"], result["on"]
    points = ["InputTokens", "Logits", "LogitLens", "HiddenStates", "RawAttentionScore"]
    assert result["default"] == (points if kind != "plain" else ["InputTokens", "Logits", "HiddenStates"])
    assert set(off["records"]) == {"off"} and set(on["records"]) == {"off", "on"}
    assert on["programs"] == [{"name": "double", "acted": True, "failed": 0, "waiting": 0}]
    for side, answer in (("off", off), ("off", on), ("on", on)):
        step, ids = answer["step"], ids_of(TEXTS[1])
        assert answer["tokens"] == ids
        expected = computed(kind, wrap, weights[step], TEXTS[1], side == "on")
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
                compare(one, 0, expected)


def compare_monitored(
    kind: str, wrap: str, folder: Path, weights: dict[int, dict[str, Tensor]], result: dict[str, Any]
) -> None:  # fmt: skip
    """The sets of attach() in every second step, and the kept one between its first step and its last."""
    kept_steps = set()
    compared = set()
    for one in scenarios.kept_of(records(folder)):
        texts = TEXTS if one["prompt_set"] == 1 else [TEXTS[1]]
        assert one["prompt_set"] in (1, 2) and one["step"] % INTERVAL == 0 and one["phase"] == "eval"
        kept_steps |= {one["step"]} if one["prompt_set"] == 2 else set()
        if one["compressor"] == "topk" or one["point"] == "InputTokens":
            continue
        for row in range(one["values"].shape[0]):
            text = texts[one["first_row"] + row]
            compare(one, row, computed(kind, wrap, weights[one["step"]], text, doubled=False))
            compared.add((one["prompt_set"], one["point"], one["layer"], one["step"], text))
    assert kept_steps == {n for n in range(result["kept"], result["removed"]) if n % INTERVAL == 0} != set()
    steps = {step for number, _, _, step, _ in compared if number == 1}
    assert len(steps) >= 2 and len(compared) >= len(steps) * len(TEXTS) * 4


CASES = [
    pytest.param("gpt2", "ddp", 2, 0.1, id="gpt2-ddp", marks=SMOKE),
    pytest.param("plain", "autocast", 1, 0.0, id="autocast"),
    pytest.param("llama", "fsdp", 2, 0.0, id="llama-fsdp"),
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
    compare_monitored(kind, wrap, tmp_path, first["weights"], first["result"])
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


REFUSED = [
    pytest.param({}, "none", ["abc"], ["tokenizer: attach() got no tokenizer", "call attach(model, tokenizer=...)"],
                 id="no-tokenizer", marks=SMOKE),
    pytest.param({"tokenizer": LETTERS}, "none", ["abcdefghijklm"],
                 ["text: the prompt has 13 tokens, the sequence length is 12"], id="too-long", marks=SMOKE),
    pytest.param({"tokenizer": "byte"}, "none", ["ab"],
                 ["tokenizer: the tokenizer gives the id 97, and the model knows 61 ids"], id="other-ids"),
    pytest.param({"tokenizer": LETTERS}, "none", ["a!"], ["the tokenizer failed: KeyError('!')"], id="tokenizer-fails"),
    pytest.param({"tokenizer": LETTERS}, "pipeline", ["abc"], ["prompts do not run through pipeline stages"],
                 id="pipeline"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "wrap", "texts", "says"), REFUSED)
def test_prompts_are_refused_with_the_reason(
    more: dict[str, Any], wrap: str, texts: list[str], says: list[str], tmp_path: Path
) -> None:
    attach = options(tmp_path, plan={"entries": []}, **more)
    ranks = 2 if wrap == "pipeline" else 1
    found = run_ranks(scenarios.refused, ranks, tmp_path, attach, "plain", wrap, texts, env=environment(tmp_path))
    refusals = [one for text in texts for one in found[0][text]]
    assert len(refusals) == 2 * len(texts)
    assert all(one in refusal for refusal in refusals for one in says), refusals


FAILURES = [
    pytest.param("plain", "ddp", [1], None, id="typed-one-rank", marks=SMOKE),
    pytest.param("plain", "ddp", [0, 1], TEXTS, id="monitored"),
    pytest.param("llama", "tp", [0, 1], None, id="typed-tp"),
]


@pytest.mark.parametrize(("kind", "wrap", "failing", "texts"), FAILURES)
def test_a_forward_that_fails_switches_prompts_off_on_all_ranks(
    kind: str, wrap: str, failing: list[int], texts: list[str] | None, tmp_path: Path
) -> None:
    plan = {"entries": [{"point": "HiddenStates", **EVERY}, *(MONITORED["entries"] if texts else [])]}
    attach = options(tmp_path, plan=plan, tokenizer=LETTERS, prompts=texts, prompt_interval=1)
    place = tmp_path / "with"
    ended = Ranks(scenarios.failing, 2, place, attach, kind, wrap, failing, env=environment(tmp_path)).wait()
    assert [one.exit_code for one in ended] == [0, 0], [one.output for one in ended]
    (losses, refusals), (others, _) = (one.result for one in ended)
    told = "prompts are off, because the model failed on one: "
    for rank, one in enumerate(ended):
        reason = "ZeroDivisionError: no such prompt" if rank in failing else "another rank failed"
        assert one.output.count(f"warning: {told}{reason}") == 1 and "the tracer is off" not in one.output, one.output
    assert all(told in refusal for of_text in refusals for refusal in of_text)
    assert ("[failed]" in refusals[0][0]) == (texts is None) and "[not_allowed]" in refusals[1][0]
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
