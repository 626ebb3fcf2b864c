"""Speed of our reader of tokenizer.json beside one thread of the library `tokenizers`.

Both turn the same texts of seven languages into ids, one text after the other, in CPU seconds. Blocks of the two
alternate; the table shows the median of the blocks.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from program import binary  # noqa: E402
from real_tokenizers import REAL, chunks, tokenizer_file  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402


class Probe:
    """Our reader in a process that stays."""

    def __init__(self, file: Path) -> None:
        self.process = subprocess.Popen([str(binary("tokenize_probe")), str(file)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        begin = time.monotonic()
        self.answer()
        self.load_seconds = time.monotonic() - begin

    def answer(self) -> dict[str, float]:
        assert self.process.stdout is not None
        answer: dict[str, float] = json.loads(self.process.stdout.readline())
        return answer

    def seconds(self, texts: list[str]) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"time": texts}) + "\n")
        self.process.stdin.flush()
        return self.answer()["seconds"]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def seconds_of_library(tokenizer: Tokenizer, texts: list[str]) -> float:
    begin = time.process_time()
    for text in texts:
        tokenizer.encode(text, add_special_tokens=False)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=5)
    options = parser.parse_args()
    texts = chunks()
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    print(f"{len(texts)} texts, {megabytes:.1f} MB\n\n| tokenizer | load | ours | library | ratio |\n|---|---|---|---|---|")
    for name in REAL:
        file = tokenizer_file(name)
        ours, theirs = Probe(file), Tokenizer.from_file(str(file))
        pairs = [(ours.seconds(texts), seconds_of_library(theirs, texts)) for _ in range(options.blocks)]
        ours.close()
        mine, other = (statistics.median(one) for one in zip(*pairs, strict=True))
        print(f"| {name} | {ours.load_seconds:.2f} s | {megabytes / mine:.1f} MB/s | {megabytes / other:.1f} MB/s "
              f"| {statistics.median(b / a for a, b in pairs):.1f} |", flush=True)


if __name__ == "__main__":
    main()
