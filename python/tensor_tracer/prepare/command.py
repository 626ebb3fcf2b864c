"""`python -m tensor_tracer prepare DATA.jsonl --tokenizer DIR --out DIR`: docs/prepare.md."""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tensor_tracer.errors import TensorTracerError, wrong
from tensor_tracer.prepare.dataset import DatasetWriter
from tensor_tracer.prepare.documents import Document, Documents, roles_of
from tensor_tracer.prepare.lines import ROLES, InputLines
from tensor_tracer.prepare.tokenizer import FolderTokenizer

_MANIFEST = "prepared.json"
_BATCH_DOCUMENTS, _BATCH_CHARACTERS = 256, 4 << 20  # that become tokens at once
_SECONDS = 10  # between two lines of progress
_EPILOG = """
  prepare chats.jsonl --tokenizer models/smollm2 --out data/chats
"""


class Preparation:
    """One input file on its way into one folder."""

    def __init__(self, tokenizer: FolderTokenizer, path: Path, folder: Path, keeps_rewritten: bool) -> None:
        self._tokenizer, self._lines = tokenizer, InputLines(path)
        self._size, self._told = max(path.stat().st_size, 1), time.monotonic()
        self._documents = Documents(tokenizer, keeps_rewritten)
        self._writer = DatasetWriter(folder, tokenizer.vocab_size)
        self._folder, self._assistant = folder, 0

    def run(self) -> str:
        """Writes the files; a summary."""
        with self._writer:
            for batch in self._batches():
                self._write(batch)
                self._tell()
            self._writer.finish()
        self._write_manifest()
        writer, share = self._writer, 100 * self._assistant / self._writer.tokens
        return (f"{writer.documents} documents, {writer.tokens} tokens, {share:.1f} % of them of the assistant, "
                f"the longest document has {writer.longest}")  # fmt: skip

    def _batches(self) -> Iterator[list[tuple[str, Document]]]:
        """Documents with the place of their line."""
        batch: list[tuple[str, Document]] = []
        characters = 0
        for line in self._lines:
            made = self._documents.document(line)
            batch.append((line.where, made))
            characters += len(made.text)
            if len(batch) == _BATCH_DOCUMENTS or characters > _BATCH_CHARACTERS:
                yield batch
                batch, characters = [], 0
        if batch:
            yield batch

    def _write(self, batch: list[tuple[str, Document]]) -> None:
        encodings = self._tokenizer.encode([document.text for _, document in batch])
        for (where, document), encoding in zip(batch, encodings, strict=True):
            ids = np.array(encoding.ids, np.int64)
            roles = roles_of(encoding, document.spans, self._tokenizer.special_ids)
            if len(ids) == 0:
                raise wrong("it gives no token", where=where)
            if document.end_role is not None:
                ids = np.append(ids, self._tokenizer.end_token or 0)
                roles = np.append(roles, np.uint8(document.end_role))
            self._assistant += int(np.count_nonzero(roles == ROLES.index("assistant")))
            self._writer.add(ids, roles)

    def _tell(self) -> None:
        if time.monotonic() - self._told >= _SECONDS:
            self._told = time.monotonic()
            done = f"{self._writer.documents} documents, {100 * self._lines.read // self._size} % of the file"
            print(f"prepare: {done}", file=sys.stderr, flush=True)

    def _write_manifest(self) -> None:
        tokenizer, writer = self._tokenizer, self._writer
        manifest = {
            "format": "tensor-tracer prepared data", "version": 1, "tokenizer_hash": tokenizer.sha256,
            "vocab_size": tokenizer.vocab_size, "end_token": tokenizer.end_token, "roles": list(ROLES),
            "documents": writer.documents, "tokens": writer.tokens,
            "source": {"file": str(self._lines.path), "sha256": self._lines.sha256},
            "chat_template_sha256": tokenizer.template.sha256 if tokenizer.template else None,
        }  # fmt: skip
        (self._folder / _MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def prepare(options: argparse.Namespace) -> str:
    """A summary. The folder appears when it is complete."""
    folder: Path = options.out.resolve()
    check_output(folder, options.force)
    if not options.data.is_file():
        raise wrong("there is no such file", "give a file of JSON lines", str(options.data))
    tokenizer = FolderTokenizer(options.tokenizer)
    part = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        summary = Preparation(tokenizer, options.data, part, options.rewritten_turns == "none").run()
        check_output(folder, options.force)
        replace(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return summary


def check_output(folder: Path, force: bool) -> None:
    """A folder with other files stays in any case."""
    if not folder.exists() or (folder.is_dir() and not any(itertools.islice(folder.iterdir(), 1))):
        return
    if not (folder / _MANIFEST).is_file():
        raise wrong("it is no folder of prepared data, and stays as it is", "give another --out", str(folder))
    if not force:
        raise wrong("it holds prepared data already", "give another --out, or --force to replace it", str(folder))


def replace(part: Path, folder: Path) -> None:
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def parse_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tensor_tracer prepare",
        description="Write conversations or texts as token ids with roles, for training (docs/prepare.md).",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("data", type=Path, help="JSON lines with messages, with prompt and response, or with text")
    parser.add_argument("--tokenizer", required=True, type=Path, metavar="DIR",
                        help="the folder of a model: tokenizer.json, tokenizer_config.json, chat template")  # fmt: skip
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="the new folder")
    parser.add_argument("--rewritten-turns", default="refuse", choices=("refuse", "none"),
                        help="a turn of the assistant that the chat template writes differently once more messages "
                        "follow: refuse its line (the default), or give the turn the role none")  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace prepared data in --out")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    options = parse_arguments(words)
    try:
        summary = prepare(options)
    except (TensorTracerError, ImportError) as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 1
    print(f"{options.out}: {summary}")
    return 0
