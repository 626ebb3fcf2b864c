"""The ready-made interventions in an attached run on a device, beside the same run on the CPU, which
test_attach_nnsight.py compares with NNsight. scripts/gpu_check.sh runs it, with the other tests of attached runs."""

from __future__ import annotations

import pytest
import torch
from attached_training import DEVICE
from test_attach_nnsight import LAYERS, NAMES, Attached, attached_run, difference, steps_of, write_model

pytestmark = pytest.mark.xdist_group("programs")  # one process: they share a run

TOLERANCE = 1e-4  # of the largest magnitude of a tensor: the device adds in another order
Both = tuple[Attached, Attached]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    assert DEVICE != "cpu", "TT_DEVICE names no device"
    folder = tmp_path_factory.mktemp("programs")
    write_model(folder)
    return attached_run(folder, 1, DEVICE), attached_run(folder, 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_on_the_device_is_that_on_the_cpu(name: str, both: Both) -> None:
    for step in steps_of(name):
        found, expected = (run.steps[step] for run in both)
        assert difference(found["logits"], expected["logits"]) < TOLERANCE
        assert found["hidden"].keys() == expected["hidden"].keys() == set(range(LAYERS + 1))
        for number, state in expected["hidden"].items():
            assert difference(found["hidden"][number], state) < TOLERANCE, number
        assert found["gradients"].keys() == expected["gradients"].keys()
        for parameter, gradient in expected["gradients"].items():
            assert difference(found["gradients"][parameter], gradient) < TOLERANCE, parameter


def test_saved_values_and_noise_are_those_of_the_cpu(both: Both) -> None:
    found, expected = (run.saved for run in both)
    assert found.keys() == expected.keys() and len(found) > 20
    for key, values in expected.items():
        if key[0].startswith("noise"):
            assert torch.equal(found[key], values), key
        else:
            assert difference(found[key], values) < TOLERANCE, key
