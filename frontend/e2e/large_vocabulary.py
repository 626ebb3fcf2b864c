"""For real_tokens.spec.ts: a tokenizer of 150,000 tokens, and the tokens of a text by pip's tokenizers.

    large_vocabulary.py FOLDER TEXT

writes FOLDER/tokenizer.json, and prints the tokens of the text as JSON: {"ids": […], "texts": […]}.
"""

import itertools
import json
import string
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SIZE = 150_000
LETTERS = "Ġ" + string.ascii_letters + string.digits + ".,:()"


def vocabulary() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The bytes, then all pairs of these letters, then as many triples as there is room for."""
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = list(itertools.product(LETTERS, repeat=2))
    pairs = ["".join(pair) for pair in merges]
    room = SIZE - 1 - len(tokens) - len(pairs)
    merges += itertools.islice(itertools.product(pairs, LETTERS), room)
    tokens += ["".join(merge) for merge in merges]
    return {token: number for number, token in enumerate(tokens)}, merges


def main() -> None:
    folder, text = Path(sys.argv[1]), Path(sys.argv[2]).read_text()
    numbers, merges = vocabulary()
    tokenizer = Tokenizer(models.BPE(numbers, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    assert tokenizer.get_vocab_size() == SIZE
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(text).ids
    print(json.dumps({"ids": ids, "texts": [tokenizer.decode([one]) for one in ids]}))


if __name__ == "__main__":
    main()
