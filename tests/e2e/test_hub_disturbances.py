"""What MegaScope's clients disturb becomes programs, and goes when they say so or go away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_harness import Hub, claim, running_hub, wait_until
from test_hub_dialects import MEGASCOPE, OFF, START, TENSOR_TRACER, Legacy, Trainer

pytestmark = pytest.mark.nightly(suite="dialects")

CALCULATION = {
    "calculation_perturbation": True,
    "calculation_perturbation_fn": "noise2",
    "calculation_perturbation_coef": 0.05,
}
WEIGHT = {
    "weight_perturbation": True,
    "weight_perturbation_fn": "noise1",
    "weight_perturbation_coef": 2,
}
CALCULATION_TEXT = (
    'when(phase="train")\n'
    'layers[layer].mlp.output *= 1 + 0.05 * (2 * noise(layers[layer].mlp.output, "uniform") - 1)'
)


def disturbing(*configs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """MegaScope's message with these switches on and the others off."""
    switches = dict(OFF)
    for config in configs:
        switches |= config
    return MEGASCOPE | {"disturbance_configs": switches | more}


@pytest.fixture
def trainer(hub: Hub) -> Iterator[Trainer]:
    yield Trainer(hub)


@pytest.mark.smoke
def test_a_disturbance_is_applied_changed_and_removed(hub: Hub, trainer: Trainer) -> None:
    client = Legacy(hub)
    assert client.ask(disturbing(CALCULATION)) == START
    assert trainer.methods() == ["intervention.apply", "plan.set"]
    assert {name: p["text"] for name, p in trainer.programs.items()} == {
        "megascope calculation": CALCULATION_TEXT
    }
    assert client.ask(disturbing(CALCULATION)) == START
    assert len(trainer.methods()) == 2, "what is in force is not asked for again"
    both = disturbing(CALCULATION, WEIGHT, calculation_perturbation_coef=0.5)
    assert client.ask(both) == START
    assert "0.5 *" in trainer.programs["megascope calculation"]["text"]
    assert "2 * noise(output_layer.weight)" in trainer.programs["megascope weight"]["text"]
    assert client.ask(disturbing(WEIGHT)) == START
    assert list(trainer.programs) == ["megascope weight"]
    assert client.ask({key: MEGASCOPE[key] for key in MEGASCOPE if key != "disturbance_configs"}) == START
    assert trainer.programs == {}
    assert trainer.methods()[2:] == ["intervention.apply", "intervention.apply",
                                     "intervention.remove", "intervention.remove"]  # fmt: skip


def test_each_message_has_one_start_however_fast_they_come(hub: Hub, trainer: Trainer) -> None:
    client = Legacy(hub)
    trainer.hold.clear()
    for message in (disturbing(CALCULATION, WEIGHT), MEGASCOPE, disturbing(WEIGHT)):
        client.send(message)
    wait_until(lambda: len(trainer.methods()) > 0, "the first request")
    trainer.hold.set()
    assert [client.get() for _ in range(3)] == [START] * 3
    assert list(trainer.programs) == ["megascope weight"]
    assert client.gets_nothing()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"calculation_perturbation_fn": "noise3"}, "calculation_perturbation_fn"),
        ({"calculation_perturbation_coef": "0.1"}, "calculation_perturbation_coef"),
        ({"calculation_perturbation_coef": None}, "calculation_perturbation_coef"),
        ({"system_perturbation": "True"}, "system_perturbation_fn"),
        ({"mood_perturbation": True}, "mood_perturbation"),
    ],
)
def test_wrong_values_are_refused_and_change_nothing(
    hub: Hub, trainer: Trainer, changes: dict[str, Any], expected: str
) -> None:
    client = Legacy(hub)
    answer = client.ask(disturbing(CALCULATION, **changes))
    assert answer["type"] == "error" and expected in answer["message"], answer
    infinite = json.dumps(disturbing(CALCULATION)).replace("0.05", "1e999")
    assert client.ask(infinite)["type"] == "error"
    assert trainer.methods() == []
    assert "result" in claim(hub.viewer()), "a refused message takes no lease"


def test_one_that_the_trainer_refuses_is_one_error_and_no_start(
    hub: Hub, trainer: Trainer
) -> None:
    client = Legacy(hub)
    trainer.refuse = {"code": "invalid_expression", "message": "no such place", "where": "program",
                      "remedy": ""}  # fmt: skip
    answer = client.ask(disturbing(CALCULATION, WEIGHT))
    assert answer["type"] == "error" and "no such place" in answer["message"]
    assert client.gets_nothing()
    trainer.refuse = None
    assert client.ask(disturbing(WEIGHT)) == START
    assert list(trainer.programs) == ["megascope weight"]


def test_who_does_not_control_disturbs_nothing(hub: Hub, trainer: Trainer) -> None:
    ada = hub.viewer()
    claim(ada)
    client = Legacy(hub)
    assert client.ask(disturbing(CALCULATION)) == START
    assert client.ask(MEGASCOPE) == START
    assert trainer.methods() == []


def test_tensor_tracers_clients_neither_disturb_nor_remove(hub: Hub, trainer: Trainer) -> None:
    scope, client = Legacy(hub), Legacy(hub)
    assert scope.ask(disturbing(CALCULATION)) == START
    claim(hub.viewer(), take_over=True)
    answer = client.ask(TENSOR_TRACER | {"disturbance_configs": CALCULATION})
    assert answer["type"] == "error" and "calculation_perturbation" in answer["message"]
    assert client.ask(TENSOR_TRACER) == START
    assert list(trainer.programs) == ["megascope calculation"]


def test_it_ends_with_the_lease(tmp_path: Path) -> None:
    with running_hub(tmp_path / "run", "--lease-seconds", "0.5") as hub:
        trainer = Trainer(hub)
        client = Legacy(hub)
        assert client.ask(disturbing(CALCULATION)) == START
        client.socket.close()
        wait_until(lambda: trainer.methods()[-1] == "intervention.revert", "the lease's end")
        wait_until(lambda: trainer.programs == {}, "the trainer")
