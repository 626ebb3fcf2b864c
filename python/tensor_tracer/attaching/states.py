"""Mean hidden states of texts: the model of an attached run reads the texts between two steps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tensor_tracer.attaching.agreement import agree, share
from tensor_tracer.attaching.groups import Groups
from tensor_tracer.attaching.paths import without_wrappers
from tensor_tracer.attaching.prompts import PromptModel
from tensor_tracer.attaching.stages import Table
from tensor_tracer.attaching.table import Site, kFlat, kSequenceFirst
from tensor_tracer.attaching.wrappers import local_of
from tensor_tracer.errors import TensorTracerError, wrong

_kSamples = 1024  # numbers of a weight that its hash is made of

# Shapes: B texts, K kinds, T tokens of the longest text, R rows, H hidden.


@dataclass(frozen=True)
class KindNames:
    """`suffix`: of the published files. `tokens`: for people."""

    suffix: str
    tokens: str


# By this order in all tensors. The tokens of a text whose mean hidden state a direction vector is made of.
KINDS = {
    "response": KindNames("response_avg_diff", "tokens of the response"),
    "prompt": KindNames("prompt_avg_diff", "tokens of the prompt"),
    "last-prompt": KindNames("prompt_last_diff", "last token of the prompt"),
}


@dataclass(frozen=True)
class Text:
    """Token ids; one of the two may be empty."""

    prompt: list[int]
    response: list[int]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.response)

    def marks(self, includes_first: bool) -> Tensor:
        """float64 [K, T]: 1 at the tokens of each kind."""
        marks = torch.zeros(len(KINDS), len(self), dtype=torch.float64)
        end = len(self.prompt)
        marks[0, end:] = marks[1, :end] = marks[2, max(end - 1, 0) : end] = 1
        if not includes_first:
            marks[:, :1] = 0
        return marks

    def has(self, includes_first: bool) -> Tensor:
        """bool [K]: the kinds of which the text has a token."""
        return self.marks(includes_first).any(dim=1)


class HiddenMeans:
    """Takes the place of torch.classes.tensor_tracer.Forward in a forward, and keeps weighted sums of the hidden states
    over the tokens, so that no layer's states stay in memory. No program acts in this forward. Row 0 is the embedding,
    row n the output of layer n, and the last row the output of the final norm in place of the last layer's output, as
    `hidden_states` of transformers."""

    def __init__(self, rows: Mapping[int, tuple[int, Site]], tensor_index: int) -> None:
        """`rows`: by the library's number of the site. `tensor_index`: of this tensor-parallel rank."""
        self._rows, self.tensor_index = rows, tensor_index
        self._missing: set[int] = set()

    def begin(self, weights: Tensor, hidden_size: int) -> None:
        """`weights`: float64 [B, K, T], on the device of the model."""
        self._weights, self._missing = weights, set(self._rows)
        self.sums = weights.new_zeros(*weights.shape[:2], len(self._rows), hidden_size)  # [B, K, R, H]: this rank's share

    def require_all(self) -> None:
        """Raises RuntimeError if a module did not run, or its hook failed."""
        if self._missing:
            at = ", ".join(self._rows[number][1].at for number in sorted(self._missing))
            raise RuntimeError(f"the model passed on no values of {at}")

    def wanted(self) -> list[int]:
        return list(self._rows)

    def has_programs(self) -> bool:
        return False

    def acts_at(self, _site: int) -> bool:
        return False

    def capture(self, number: int, _output: Tensor, local: Tensor) -> None:
        row, site = self._rows[number]
        self._missing.discard(number)
        is_part = site.layout.dim is not None
        if not is_part and self.tensor_index > 0:
            return  # the first tensor-parallel rank has the whole
        states, weights = _batch_first(local, site, len(self._weights)), self._weights
        if is_part:
            weights = weights.narrow(2, self.tensor_index * states.shape[1], states.shape[1])
        self.sums[:, :, row] = weights @ states.to(torch.float64)


class StateReader:
    """Runs texts through the model of an attached run. Thread: the thread that runs the step."""

    def __init__(self, model: PromptModel, table: Table, groups: Groups, step: int) -> None:
        """`step`: the last step of the run. Raises TensorTracerError if a row cannot be read."""
        self._model, self._groups, self._step = model, groups, step
        rows = _rows_of(table)
        self._sites = [site for _, site in rows.values()]
        self._means = HiddenMeans(rows, groups.tensor_ranks.index(groups.rank))
        self.rows, self.hidden_size = len(rows), int(self._sites[0].row["features"])

    @property
    def rank(self) -> int:
        return self._groups.rank

    @property
    def counts_texts(self) -> bool:
        """True on one of the ranks that share the states of a text."""
        return self._means.tensor_index == 0

    @property
    def most_tokens(self) -> int | None:
        """Of a text; None: not known."""
        known = getattr(getattr(self._model.root, "config", None), "max_position_embeddings", None)
        limits = [one for one in (known, self._model.filled_to or None) if isinstance(one, int)]
        return min(limits, default=None)

    def tokenize(self, text: str) -> list[int]:
        """Without the tokens that the tokenizer adds by itself. As PromptModel.tokenize()."""
        return self._model.tokenize(text, adds_special=False)

    def unknown_id(self, ids: Sequence[int]) -> int | None:
        return self._model.unknown_id(ids)

    def facts(self) -> dict[str, Any]:
        """Of the model, for provenance; those of global rank 0. Collective over all ranks."""
        root = self._model.root
        name = getattr(getattr(root, "config", None), "name_or_path", "") or type(without_wrappers(root)).__name__
        own = {
            "model": str(name), "model_hash": _sample_hash(root), "step": self._step,
            "tokenizer_sha256": "" if self._model.reads_bytes else None,
            "dtype": str(self._sites[-2].seen.dtype).removeprefix("torch."),
        }  # fmt: skip
        found: dict[str, Any] = self.share(own)
        return found

    def share(self, value: Any) -> Any:
        """That of global rank 0. Collective over all ranks."""
        return share(value, self._groups.control)[0]

    def agree(self, problem: Exception | None, arguments: Mapping[str, str] | None = None) -> None:
        """As agreement.agree(). Collective over all ranks."""
        agree(problem, self._groups.control, arguments)

    def add_up(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place. Collective over them."""
        if self._groups.control is not None:
            dist.all_reduce(tensor, group=self._groups.control)
        return tensor

    def read(
        self, texts: Sequence[Text], includes_first: bool, batch_size: int, take: Callable[[int, Tensor], None]
    ) -> None:
        """Calls `take` for the texts of this data replica with the index of the text and its mean states over the tokens
        of each kind, float64 [K, R, H] on the CPU; zeros where there is no token. They are this rank's share: those of
        all ranks add up to the mean. `batch_size`: texts of a replica that run together. Raises RuntimeError if the
        model fails. Collective over all ranks."""
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        problem: Exception | None = None
        try:
            size = batch_size * self._groups.data_size
            for first in range(0, len(order), size):
                together = order[first : first + size]
                own = together[self._groups.data_index :: self._groups.data_size]
                # A replica without a text runs another's: FSDP needs all ranks in each forward.
                means = self._run([texts[index] for index in own or together[:1]], includes_first)
                for index, one in zip(own, means, strict=False):
                    take(index, one)
        except Exception as error:  # the other ranks must not wait for this one
            problem = error
        self.agree(problem)

    def _run(self, texts: Sequence[Text], includes_first: bool) -> Tensor:
        length = self._model.filled_to or max(len(text) for text in texts)
        device = self._sites[0].seen.device
        ids = torch.zeros(len(texts), length, dtype=torch.int64)
        weights = torch.zeros(len(texts), len(KINDS), length, dtype=torch.float64)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text.prompt + text.response)
            marks = text.marks(includes_first)
            weights[row, :, : len(text)] = marks / marks.sum(dim=1, keepdim=True).clamp_min(1)
        self._means.begin(weights.to(device), self.hidden_size)
        self._model.run(self._means, ids.to(device))
        self._means.require_all()
        return self._means.sums.cpu()


def _rows_of(table: Table) -> dict[int, tuple[int, Site]]:
    """The rows and their places, by the library's number of the site. Raises TensorTracerError."""
    layers = int(table.description["places"]["num_layers"])
    wanted = [("Embedding", 0), *(("HiddenStates", layer) for layer in range(1, layers)), ("FinalNorm", 0)]
    rows = {}
    for row, (name, layer) in enumerate(wanted):
        found = next((i for i, site in enumerate(table.places) if _is_place(site, name, layer)), None)
        if found is None:
            message = f"the model has no place {name}" + f" in layer {layer}" * (layer > 0)
            raise wrong(message, "run.points() says why; attach(names=...) names a place", "extract")
        _require_layout(table.places[found])
        rows[found + 1] = row, table.places[found]
    return rows


def _is_place(site: Site, name: str, layer: int) -> bool:
    is_named = name in (site.name, site.standard.name if site.standard is not None else "")
    return is_named and site.layer == layer and site.lens_of is None and not site.seen.is_weight


def _require_layout(site: Site) -> None:
    """Each rank must have the whole, or a part of the tokens."""
    if not site.layout.is_known or site.row.get("dim") not in (None, 1):
        raise TensorTracerError(
            "not_allowed", f"the layout of {site.at} is {site.layout}, and not the whole or parts of the tokens", "extract",
            "say the layout: attach(placements=...)",
        )  # fmt: skip


def _batch_first(local: Tensor, site: Site, rows: int) -> Tensor:
    """[rows, tokens, features]"""
    if site.row["view"] == kFlat:
        return local.reshape(rows, -1, local.shape[-1])
    return local.transpose(0, 1) if site.row["view"] == kSequenceFirst else local


def _sample_hash(root: nn.Module) -> str:
    """Over names, shapes and samples of the weights that this rank holds."""
    digest = hashlib.sha256()
    for name, weight in root.named_parameters():
        flat = local_of(weight.detach()).reshape(-1)
        sample = flat[:: max(flat.numel() // _kSamples, 1)].contiguous().cpu()
        digest.update(f"{name} {list(weight.shape)} {weight.dtype}\n".encode())
        digest.update(sample.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
