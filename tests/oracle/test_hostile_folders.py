"""Folders of Hugging Face that are damaged or hostile: one error, soon, and with little memory.

`test_hf_models.py` has the plain damages, unit tests have the headers and keys one by one.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hf_models import LENGTH, random_model, save
from program import command, environment
from safetensors.torch import load_file, save_file

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
NORM = "model.norm.weight"
MOST_SECONDS = 60
MOST_BYTES = 512 << 20  # more than for a refusal of a folder without files


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(random_model("llama-2", torch.float32), tmp_path_factory.mktemp("llama") / "model")


def refusal(folder: Path, data: Path, tmp_path: Path) -> tuple[str, int]:
    """The only line of the error, and the most memory in bytes."""
    flags = {"hf_model": folder, "seq_length": LENGTH, "train_iters": 1, "data_path": data, "run_dir": tmp_path / "run"}
    errors = tmp_path / "errors"
    with errors.open("w") as file, subprocess.Popen(command(flags), env=environment(), stdout=file, stderr=file) as run:
        last = time.monotonic() + MOST_SECONDS
        done = (0, 0, None)
        while done[0] == 0 and time.monotonic() < last:
            time.sleep(0.02)
            done = os.wait4(run.pid, os.WNOHANG)
        if done[0] == 0:
            run.kill()
            pytest.fail(f"it hangs: {errors.read_text()}")
        run.returncode = os.waitstatus_to_exitcode(done[1])
    message = errors.read_text()
    assert run.returncode == 2 and message.count("\n") == 1, (run.returncode, message[-2000:])
    assert done[2] is not None
    return message, done[2].ru_maxrss << 10


@pytest.fixture(scope="module")
def least(data: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Bytes of a program that refuses at once."""
    folder = tmp_path_factory.mktemp("empty")
    return refusal(folder, data, folder)[1]


def header_of(file: Path) -> tuple[dict[str, Any], bytes]:
    content = file.read_bytes()
    [length] = struct.unpack_from("<Q", content)
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def write_header(file: Path, header: str, values: bytes) -> None:
    file.write_bytes(struct.pack("<Q", len(header)) + header.encode() + values)


def change_entry(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """A damage of the entry of one norm."""

    def damage(folder: Path) -> None:
        header, values = header_of(folder / WEIGHTS)
        change(header[NORM])
        write_header(folder / WEIGHTS, json.dumps(header), values)

    return damage


def overlap(folder: Path) -> None:
    header, values = header_of(folder / WEIGHTS)
    other = header["model.layers.0.input_layernorm.weight"]
    other["data_offsets"] = header[NORM]["data_offsets"]
    write_header(folder / WEIGHTS, json.dumps(header), values)


def repeat_name(folder: Path) -> None:
    header, values = header_of(folder / WEIGHTS)
    text = json.dumps(header)
    write_header(folder / WEIGHTS, text[:-1] + f', "{NORM}": {json.dumps(header[NORM])}}}', values)


def cut(bytes_left: int) -> Callable[[Path], None]:
    return lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:bytes_left])


def claim_header(length: int, size: int) -> Callable[[Path], None]:
    """A sparse file: it claims a header of this length."""

    def damage(folder: Path) -> None:
        with (folder / WEIGHTS).open("wb") as file:
            file.write(struct.pack("<Q", length))
            file.truncate(size)

    return damage


def fill_header(piece: str, length: int) -> Callable[[Path], None]:
    """A header of many small parts that are no tensors."""

    def damage(folder: Path) -> None:
        write_header(folder / WEIGHTS, '{"a": [' + piece * (length // len(piece)) + "0]}", b"")

    return damage


def split(change: Callable[[dict[str, str]], None]) -> Callable[[Path], None]:
    """The model in two files; `change` damages the map of their index."""

    def damage(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        (folder / WEIGHTS).unlink()
        parts = {"a.safetensors": sorted(tensors)[::2], "b.safetensors": sorted(tensors)[1::2]}
        for name, names in parts.items():
            save_file({one: tensors[one] for one in names}, folder / name)
        weight_map = {one: name for name, names in parts.items() for one in names}
        change(weight_map)
        (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))

    return damage


def write_index(content: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / WEIGHTS).rename(folder / "a.safetensors")
        (folder / INDEX).write_text(content)

    return damage


def repeat_tensor(folder: Path) -> None:
    """Two files hold the same tensor with other values."""
    split(lambda names: None)(folder)
    for number, name in enumerate(("a.safetensors", "b.safetensors")):
        save_file(load_file(folder / name) | {NORM: torch.full([48], float(number))}, folder / name)


def config(**changes: Any) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        whole = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(whole | changes))

    return damage


def write_config(content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "config.json").write_text(content) and None


def pipe(name: str) -> Callable[[Path], None]:
    """A file that never ends to open."""

    def damage(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return damage


def tokenizer(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "tokenizer.json").write_text(text) and None


def bpe(**changes: Any) -> str:
    return json.dumps({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}} | changes)


DAMAGES: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "an empty file": (cut(0), (WEIGHTS, "it is not a safetensors file")),
    "cut in the length": (cut(7), (WEIGHTS, "it is not a safetensors file")),
    "cut in the header": (cut(300), (WEIGHTS, "it is not a safetensors file")),
    "cut at the header's end": (
        lambda folder: write_header(folder / WEIGHTS, json.dumps(header_of(folder / WEIGHTS)[0]), b""),
        (WEIGHTS, "its offsets are wrong")),
    "tensors overlap": (overlap, (WEIGHTS, "its tensors overlap")),
    "a name stands twice": (repeat_name, (WEIGHTS, f'it names the tensor "{NORM}" twice')),
    "a shape that does not fit": (change_entry(lambda one: one.update(shape=[24])), (WEIGHTS, "does not fit its size")),
    "a shape with too many dims": (change_entry(lambda one: one.update(shape=[48] + [1] * 63)), (WEIGHTS, NORM)),
    "another number of dims": (change_entry(lambda one: one.update(shape=[6, 8])), (NORM, "the shape [6,8]")),
    "a huge shape": (change_entry(lambda one: one.update(shape=[2**61, 2**61])), (WEIGHTS, "does not fit its size")),
    "a negative shape": (change_entry(lambda one: one.update(shape=[-48])), (WEIGHTS, "its header is wrong")),
    "a shape of zero": (change_entry(lambda one: one.update(shape=[0], data_offsets=[0, 0])), (NORM, "the shape [0]")),
    "whole numbers": (change_entry(lambda one: one.update(dtype="I32")), (NORM, "holds whole numbers")),
    "offsets backwards": (change_entry(lambda one: one["data_offsets"].reverse()), (WEIGHTS, "its offsets are wrong")),
    "offsets beyond the file": (
        change_entry(lambda one: one.update(data_offsets=[2**61, 2**61 + 192])), (WEIGHTS, "its offsets are wrong")),
    "an entry that is no object": (
        lambda folder: write_header(folder / WEIGHTS, json.dumps({NORM: [1]}), b""), (WEIGHTS, "its header is wrong")),
    "a header that is longer than the file": (
        claim_header(2**63, 4096), (WEIGHTS, "it is not a safetensors file")),
    "a header of 1 TiB in a sparse file": (
        claim_header(2**40, 2**40 + 4096), (WEIGHTS, "its header is longer than 100 MiB")),
    "a header of zeros": (claim_header(90 << 20, 100 << 20), (WEIGHTS, "its header is not JSON")),
    "a header of many numbers": (fill_header("0,", 90 << 20), (WEIGHTS, "its header is wrong")),
    "a header that is nested deeply": (fill_header("[", 1 << 20), (WEIGHTS, "its header is not JSON")),
    "a pipe for weights": (pipe(WEIGHTS), (WEIGHTS, "it is not a regular file")),
    "the index names a file that is absent": (
        split(lambda names: names.update({NORM: "c.safetensors"})), ("c.safetensors", "cannot be read")),
    "an absolute name in the index": (
        split(lambda names: names.update({NORM: "/etc/x.safetensors"})), (INDEX, "no .safetensors file of the folder")),
    "the index leaves a file out": (
        lambda folder: (split(lambda names: None)(folder), (folder / INDEX).write_text(
            json.dumps({"weight_map": {NORM: "a.safetensors"}})))[0], ("--hf-model", "has no tensor model.")),
    "a tensor in two files": (repeat_tensor, (NORM,)),
    "the index has no map": (write_index("{}"), (INDEX, "weight_map")),
    "the index is a list": (write_index("[]"), (INDEX, "is not a JSON object")),
    "the map is a list": (write_index('{"weight_map": ["a.safetensors"]}'), (INDEX, "weight_map")),
    "the map has numbers": (write_index('{"weight_map": {"a": 1}}'), (INDEX, "weight_map")),
    "an index that is nested deeply": (write_index('{"weight_map": ' + "[" * 100_000), (INDEX, "nested deeper")),
    "an unknown architecture": (config(model_type="mamba"), ("config.json: model_type", '"mamba" is not a family')),
    "no architecture": (config(model_type=None), ("config.json: model_type", '"" is not a family')),
    "more layers than there are": (config(num_hidden_layers=3), ("--hf-model", "has no tensor model.layers.2.")),
    "1,024 layers": (config(num_hidden_layers=1024), ("--hf-model", "has no tensor model.layers.2.")),
    "2^24 layers": (config(num_hidden_layers=2**24), ("config.json: num_hidden_layers", "1024")),
    "huge matrices": (
        config(hidden_size=2**24, intermediate_size=2**24, vocab_size=2**24), ("--hf-model", "has the shape")),
    "heads that do not divide": (
        config(num_attention_heads=7, head_dim=None), ("48 is not divisible by --num-attention-heads 7",)),
    "groups that do not divide": (config(num_key_value_heads=3), ("4 is not divisible by --num-query-groups 3",)),
    "an odd head for the rotary embedding": (config(head_dim=11), ("head",)),
    "a key that stands twice": (
        lambda folder: (folder / "config.json").write_text(
            '{"hidden_size": 8, ' + (folder / "config.json").read_text().lstrip()[1:]) and None,
        ("config.json", "hidden_size")),
    "a config that is nested deeply": (write_config("[" * 100_000), ("config.json", "nested deeper")),
    "a number that no float64 holds": (write_config('{"rms_norm_eps": 1e999}'), ("config.json", "float64")),
    "a config that is a text": (write_config('"llama"'), ("config.json", "is not a JSON object")),
    "bytes that are not UTF-8": (
        lambda folder: (folder / "config.json").write_bytes(b'{"model_type": "\xff"}') and None, ("config.json", "JSON")),
    "a pipe for the config": (pipe("config.json"), ("config.json", "it is not a regular file")),
    "a model of a tokenizer that is unknown": (
        tokenizer(bpe(model={"type": "Unigram"})), ("tokenizer.json, model.type", "the model Unigram is unknown")),
    "a normalizer that is unknown": (
        tokenizer(bpe(normalizer={"type": "Lowercase"})), ("tokenizer.json, normalizer.type", "Lowercase is unknown")),
    "a pre-tokenizer that is unknown": (
        tokenizer(bpe(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Magic"}]})),
        ("tokenizer.json, pre_tokenizer.pretokenizers[0].type", "Magic is unknown")),
    "more ids than rows": (
        tokenizer(bpe(added_tokens=[{"id": 2**24 - 1, "content": "x"}])), ("--tokenizer", "16777216 ids")),
    "a tokenizer that is cut off": (tokenizer(bpe()[:-9]), ("tokenizer.json", "JSON")),
    "a tokenizer that is nested deeply": (tokenizer("[" * 1_000_000), ("tokenizer.json",)),
    "a pipe for the tokenizer": (pipe("tokenizer.json"), ("tokenizer.json", "it is not a regular file")),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_it_is_refused_by_file_and_part(kind: str, llama: Path, least: int, data: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(llama, tmp_path / "model"))
    damage, told = DAMAGES[kind]
    damage(folder)
    message, most = refusal(folder, data, tmp_path)
    assert all(part in message for part in told), message
    assert most < least + MOST_BYTES, f"{most >> 20} MiB, {least >> 20} MiB for an empty folder"
