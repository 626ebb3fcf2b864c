"""`tensor_tracer.vectors.extract` on attached trainings: against hidden states of `transformers` with the same weights
in one process, and against `tensor-tracer vector extract`."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attached_vectors as scenarios
import pytest
import torch
from attached_prompts import alone
from attached_training import TOKENS, VOCABULARY, make_model
from data_files import write_jsonl
from forked_ranks import run_ranks
from hf_models import save
from safetensors.torch import load_file
from tensor_tracer.attaching.layouts import Layout, kUnknown
from tensor_tracer.attaching.prompts import PromptModel, PromptOptions
from tensor_tracer.attaching.states import _require_layout
from tensor_tracer.errors import TensorTracerError
from test_attach_safety import environment
from torch import Tensor, nn
from vector_runs import KINDS, Text, answer, assert_rows_close, contrast, deep_model, expected_vector, texts_of

pytestmark = pytest.mark.nightly(suite="attach")

SMOKE = pytest.mark.smoke
ATTACH: dict[str, Any] = {"port": None, "plan": {"entries": []}}
LAYERS = {"scaled": ("blocks", "head.0"), "sequence": ("h", "norm")}  # the paths of layers and final norm
NAMES = {"scaled": {"head.0.output": "FinalNorm"}}
PROGRAM = "layers[2].output *= 2"
SUFFIXES = {"response": "response_avg_diff", "prompt": "prompt_avg_diff", "last-prompt": "prompt_last_diff"}


def sides_of(count: int, more: int = 1) -> tuple[list[Any], list[Any]]:
    """Prompts and responses of ids. One response has no prompt and is as long as the model allows, and one text is a
    single token. `more`: texts of the second side, so they are no pairs."""
    drawn = random.Random(4)

    def ids(most: int, least: int = 1) -> list[int]:
        return [drawn.randrange(VOCABULARY) for _ in range(drawn.randint(least, most))]

    made = [[(ids(5), ids(7)) for _ in range(size)] for size in (count, count + more)]
    return [*made[0], ids(TOKENS, TOKENS), [7]], [*made[1], torch.tensor(ids(6)), [9]]


def as_texts(side: list[Any]) -> list[Text]:
    pairs = [one if isinstance(one, tuple) else ([], [int(i) for i in one]) for one in side]
    return [Text(a + b, [False] * len(a) + [True] * len(b)) for a, b in pairs]


class WithStates:
    """A model of another library that returns its hidden states as those of transformers do."""

    def __init__(self, model: nn.Module, layers: str, norm: str) -> None:
        self._model, self._states = model, {}
        for number, layer in enumerate(model.get_submodule(layers)):  # type: ignore[arg-type]
            layer.register_forward_pre_hook(lambda _module, args, number=number: self._states.update({number: args[0]}))
        last = number + 1
        model.get_submodule(norm).register_forward_hook(lambda _module, _args, output: self._states.update({last: output}))

    def __call__(self, ids: Tensor, output_hidden_states: bool) -> Any:
        self._model(ids)
        return SimpleNamespace(hidden_states=[self._states[row] for row in sorted(self._states)])


def reference(kind: str, weights: dict[str, Tensor]) -> Any:
    model = make_model(kind, "none", "cpu")
    model.load_state_dict(weights, strict=False)
    return WithStates(model.eval(), *LAYERS[kind]) if kind in LAYERS else model.eval()


CASES = [
    pytest.param("gpt2", "none", 1, marks=SMOKE),
    pytest.param("gpt2", "ddp", 2, marks=SMOKE),
    pytest.param("llama", "none", 1),
    pytest.param("llama", "tp", 2, marks=SMOKE),
    pytest.param("llama", "fsdp", 2),
    pytest.param("qwen2", "none", 1),
    pytest.param("qwen2", "tp", 2),
    pytest.param("sequence", "tp", 2),
    pytest.param("scaled", "none", 1),
]


@pytest.mark.parametrize(("kind", "wrap", "ranks"), CASES)
def test_every_kind_equals_transformers_and_changes_no_bit_of_the_losses(
    kind: str, wrap: str, ranks: int, tmp_path: Path
) -> None:
    """6 and 7 texts, so that a batch is not full, and one of two replicas has no text in the last round."""
    sides = sides_of(4)
    common = {"kinds": KINDS, "held_out": 0, "batch_size": 3}
    options = [common, common | {"include_first_token": True}]
    attach = ATTACH | {"run_dir": str(tmp_path / "run"), "names": NAMES.get(kind)}
    ended = run_ranks(scenarios.extracted, ranks, tmp_path / "with", attach, kind, wrap, sides, options, env=environment(tmp_path))
    model = reference(kind, ended[0]["weights"])
    for first, of_option in enumerate(ended[0]["found"]):
        assert list(of_option) == KINDS
        for of_kind, (rows, provenance) in of_option.items():
            expected = expected_vector(model, *map(as_texts, sides), of_kind, bool(first))
            assert not rows.requires_grad and rows.is_contiguous()
            assert_rows_close(rows, expected)
            assert provenance["first_token"] == ("included" if first else "left out")
            assert provenance["kind"] == of_kind and provenance["step"] == scenarios.AFTER
    for other in ended:
        assert other["is_state_kept"]
        assert all(torch.equal(*(rank["found"][n][of_kind][0] for rank in (other, ended[0]))) for n in (0, 1) for of_kind in KINDS)
    place = tmp_path / "without"
    without = run_ranks(alone, ranks, place, kind, wrap, 0.1, scenarios.STEPS, env=environment(place))
    assert [one["losses"] for one in ended] == without


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    made = deep_model("gpt2")
    return made, save(made, tmp_path_factory.mktemp("gpt2") / "model")


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=SMOKE), 2])
def test_files_and_numbers_are_those_of_the_program(ranks: int, gpt2: tuple[Any, Path], tmp_path: Path) -> None:
    """Texts, with the bytes as ids. The pair 35 has a prompt whose only token does not count."""
    lines = contrast(40, seed=500)
    lines[0][35]["prompt"] = "x"
    files = [write_jsonl(tmp_path / name, side) for name, side in zip(("positive.jsonl", "negative.jsonl"), lines, strict=True)]
    flags = ["--held-out", 0.25, "--kind", ",".join(KINDS), "--threads", 1, "--out", tmp_path / "theirs.safetensors"]
    theirs = answer("extract", "--hf-model", gpt2[1], "--positive", files[0], "--negative", files[1], *flags)
    sides = [[(line["prompt"], line["response"]) for line in side] for side in lines]
    attach = ATTACH | {"tokenizer": "byte"}
    given = {"kinds": KINDS, "held_out": 0.25, "out": tmp_path / "new" / "ours.safetensors"}

    arguments = attach, str(gpt2[1]), sides, PROGRAM, given
    found = run_ranks(scenarios.of_folder, ranks, tmp_path / "ranks", *arguments, env=environment(tmp_path))
    for kind, one in zip(KINDS, theirs, strict=True):
        rows, provenance = found[0][kind]
        made = [texts_of(side)[:30] for side in lines]
        assert_rows_close(rows, expected_vector(gpt2[0], *made, kind, False))
        assert_same_numbers(provenance, one["provenance"])
        assert all(torch.equal(rows, other[kind][0]) and provenance == other[kind][1] for other in found)
        file = tmp_path / "new" / f"ours_{SUFFIXES[kind]}.safetensors"
        assert torch.equal(load_file(file)[file.stem], rows)
        [told] = answer("info", file)
        assert told["provenance"] == provenance and told["shape"] == [5, 48] and told["dtype"] == "float32"
    assert len(list((tmp_path / "new").iterdir())) == 3
    ids = [[list(line[part].encode()) for part in ("prompt", "response")] for line in lines[0]]
    digest = hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()
    tokens = sum(len(part) for pair in ids for part in pair)
    assert found[0]["response"][1]["positive"] == {"file": "", "sha256": digest, "texts": 40, "tokens": tokens}


def assert_same_numbers(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() - {"step"} == theirs.keys()
    same = ("kind", "tokens", "first_token", "layer_base", "rows", "dtype", "tokenizer_sha256", "texts_in_vector",
            "held_out_texts", "best_layer")  # fmt: skip
    assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
    assert ours["by_row"].keys() == theirs["by_row"].keys()
    for name, numbers in ours["by_row"].items():
        # Both models round in another order, which moves a cosine; the other numbers are counts.
        assert numbers == pytest.approx(theirs["by_row"][name], abs=1e-7 if name.startswith("cosine") else 1e-9)


def test_a_published_file_is_read_by_both(gpt2: tuple[Any, Path], tmp_path: Path) -> None:
    out = tmp_path / "evil.pt"
    attach = ATTACH | {"tokenizer": "byte"}
    sides = [["old one", "older"], ["new", "newer one"]]
    arguments = attach, str(gpt2[1]), sides, PROGRAM, {"out": out}
    [found] = run_ranks(scenarios.of_folder, 1, tmp_path / "ranks", *arguments, env=environment(tmp_path))
    read = torch.load(out, weights_only=True)
    assert torch.equal(read, found["response"][0])
    [told] = answer("info", out)
    assert told["norms"] == pytest.approx(read.double().norm(dim=-1).tolist(), rel=1e-6)
    facts = found["response"][1]
    assert facts["best_layer"] is None and facts["held_out_texts"] is None
    assert facts["by_row"].keys() == {"cosine", "cosine_5%"}
    assert facts["texts_in_vector"] == [2, 2]


def test_a_vector_saves_itself(tmp_path: Path) -> None:
    path = tmp_path / "v" / "one.safetensors"
    [message] = run_ranks(scenarios.saved, 1, tmp_path / "ranks", options(tmp_path), sides_of(2), str(path), env=environment(tmp_path))
    assert "exists; force=True replaces it" in message
    assert [file.name for file in path.parent.iterdir()] == ["one.safetensors"]
    assert load_file(path)["one"].shape == (4, 32)


def options(folder: Path, **more: Any) -> dict[str, Any]:
    return ATTACH | {"run_dir": str(folder / "run")} | more


@pytest.mark.smoke
def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    (tmp_path / "there.pt").write_text("years")
    one, two = [[1, 2]], [[3, 4]]
    cases: list[tuple[Any, Any, dict[str, Any], str]] = [
        ([], two, {}, "positive: there are no texts"),
        (one, "abc", {}, "negative: str is no list of texts"),
        (one, [[3, 4], []], {}, "negative[1]: it has no token"),
        ([[1, VOCABULARY]], two, {}, f"positive[0]: the model does not know the id {VOCABULARY}"),
        ([[1, -1]], two, {}, "positive[0]: the model does not know the id -1"),
        ([[1.5]], two, {}, "positive[0]: list is neither a text nor token ids"),
        ([torch.ones(3)], two, {}, "positive[0]: Tensor is neither a text nor token ids"),
        ([torch.ones(1, 3, dtype=torch.int64)], two, {}, "positive[0]: Tensor is neither a text nor token ids"),
        ([3], two, {}, "positive[0]: int is neither a text nor token ids"),
        ([([1], [2], [3])], two, {}, "positive[0]: tuple is neither a text nor token ids"),
        ([[1] * (TOKENS + 1)], two, {}, f"positive[0]: it has {TOKENS + 1} tokens, and the model takes {TOKENS}"),
        (["a!"], two, {}, "'!'"),
        ([[1], [2]], two, {}, 'positive: no text has a token for "response" but its first one'),
        (one, two, {"kinds": ["response", "prompt"]}, 'positive: "prompt" needs prompts, and the texts have none'),
        ([([1, 2], [])], two, {}, 'positive: "response" needs responses, and the texts have none'),
        (one, two, {"kinds": ["answer"]}, "kinds: ['answer'] are no kinds"),
        (one, two, {"kinds": []}, "kinds: [] are no kinds"),
        (one, two, {"kinds": ["response"] * 2}, "each once"),
        (one, two, {"held_out": 1}, "held_out: 1 is no share"),
        (one, two, {"batch_size": 0}, "batch_size: 0 texts cannot run together"),
        (one, two, {"out": tmp_path / "v.npy"}, "does not end with .pt or .safetensors"),
        (one, two, {"out": tmp_path / "there.pt"}, "there.pt' exists; force=True replaces it"),
    ]
    attach = options(tmp_path, tokenizer=scenarios.Letters())
    calls = [case[:3] for case in cases]
    [messages] = run_ranks(scenarios.refusals, 1, tmp_path / "ranks", attach, calls, env=environment(tmp_path))
    for message, case in zip(messages, cases, strict=True):
        assert case[3] in message, (case, message)
    assert (tmp_path / "there.pt").read_text() == "years"
    [[message]] = run_ranks(scenarios.refusals, 1, tmp_path / "ids", options(tmp_path), [(["abc"], two, {})], env=environment(tmp_path))
    assert "tokenizer: attach() got no tokenizer" in message


def test_a_call_at_the_wrong_time_is_refused(tmp_path: Path) -> None:
    [messages] = run_ranks(scenarios.out_of_place, 1, tmp_path, options(tmp_path), env=environment(tmp_path))
    says = ["the places of the model are not known yet; call it after the first step", "step 2 has not ended",
            "the run is detached", "run: GPT2LMHeadModel is no attached run"]  # fmt: skip
    assert all(one in message for one, message in zip(says, messages, strict=True)), messages


def test_a_model_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for work, ranks, says in [
        (scenarios.without_norm, 1, "extract: the model has no place FinalNorm; run.points() says why"),
        (scenarios.not_finite, 1, "the hidden states of row 2 are not finite"),
        (scenarios.in_stages, 2, "prompts do not run through pipeline stages"),
    ]:
        place = tmp_path / work.__name__
        messages = run_ranks(work, ranks, place, options(place), env=environment(place))
        assert all(says in message for message in messages), messages


def test_a_layout_that_is_not_known_is_refused() -> None:
    for layout, row in ((kUnknown, {}), (Layout(-1), {"dim": 2})):
        site: Any = SimpleNamespace(layout=layout, row=row, at="layers[2].output")
        with pytest.raises(TensorTracerError, match=r"the layout of layers\[2\]\.output is"):
            _require_layout(site)
    whole: Any = SimpleNamespace(layout=Layout(1), row={"dim": 1}, at="layers[2].output")
    _require_layout(whole)


def test_what_goes_wrong_on_one_rank_is_the_error_of_both(tmp_path: Path) -> None:
    place = tmp_path / "with"
    ended = run_ranks(scenarios.of_one_rank, 2, place, options(place), env=environment(place))
    says = [f"does not know the id {VOCABULARY}", "options: it differs from that of rank 0 on the ranks 1", "", "no such text"]
    for messages, _ in ended:
        assert all(one in message and message for one, message in zip(says, messages, strict=True)), messages
    place = tmp_path / "without"
    assert [losses for _, losses in ended] == run_ranks(alone, 2, place, "gpt2", "ddp", 0.0, 2, env=environment(place))


@pytest.mark.smoke
def test_a_tokenizer_adds_no_token() -> None:
    part: Any = SimpleNamespace(root=nn.Linear(1, 1))
    for tokenizer, typed in ((scenarios.Added(), [60, 1, 2]), (scenarios.Letters(), [1, 2]), ("byte", [97, 98])):
        model = PromptModel(part, PromptOptions(tokenizer=tokenizer), 0, 0)
        assert model.tokenize("ab", adds_special=False) == ([97, 98] if tokenizer == "byte" else [1, 2])
        assert model.tokenize("ab") == typed
