"""Runs a program's text on the reference model: a second, independent reading of
docs/intervention_graph.md. Programs are Python as far as grammar goes, so Python parses them, and
PyTorch evaluates their expressions. Knows the run's own data only: no evaluation, no noise.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import torch
from hooked_gpt import Graph, Seen, World, heads, put, put_heads
from torch import Tensor

PATHS = {
    "input": "Input", "attention.qkv": "QKV", "attention.query": "Query", "attention.key": "Key",
    "attention.value": "Value", "attention.scores": "RawAttentionScore", "attention.context": "ContextLayer",
    "attention.output": "AttentionOutput", "mid": "ResidualMid", "mlp.fc1": "MLP1",
    "mlp.activation": "MLPActivation", "mlp.output": "MLP2", "output": "HiddenStates",
}  # fmt: skip
OUTSIDE = {"embedding.output": "Embedding", "final_norm.output": "FinalNorm", "logits": "Logits",
           "output_layer.weight": "output_layer.weight", "final_norm.weight": "final_norm.weight",
           "tokens": "InputTokens"}  # fmt: skip
IN_LAYER = re.compile(r"layers\[(.+?)\]\.([\w.]+)")
Key = tuple[str, int, bool]  # point, layer, gradient
LAYERS = 4


class NotYet(Exception):
    """A value is asked for that the pass has not come to."""


def key_of(text: str, layer: int) -> Key | None:
    """The place that a piece of text is."""
    gradient = text.endswith(".grad")
    text = text.removesuffix(".grad")
    if text == "final_norm.input":
        return "HiddenStates", LAYERS, gradient
    if text in OUTSIDE or text in OUTSIDE.values():
        return OUTSIDE.get(text, text), 0, gradient
    found = IN_LAYER.fullmatch(text)
    if found is None:
        return None
    number = eval(found[1], {"layer": layer})  # noqa: S307
    point = PATHS.get(found[2], found[2])
    if point not in PATHS.values() and not point.endswith(".weight"):
        return None
    if point == "Input":
        return ("HiddenStates", number - 1, gradient) if number > 1 else ("Embedding", 0, gradient)
    return point, number, gradient


class Reads(ast.NodeTransformer):
    """Puts calls in the place of places: layers[2].output becomes _get("layers[2].output")."""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith(".heads"):
            place = ast.unparse(node.value).removesuffix(".heads")
            return ast.parse(f"_heads({place!r}, {index_of(node)!r})", mode="eval").body
        if isinstance(node, ast.Attribute | ast.Name) and key_of(ast.unparse(node), 1) is not None:
            return ast.parse(f"_get({ast.unparse(node)!r})", mode="eval").body
        return self.generic_visit(node)


def index_of(node: ast.Subscript) -> str:
    """What stands in the brackets; Python prints slices without them in no other way."""
    return ast.unparse(node)[len(ast.unparse(node.value)) + 1 : -1]


class Line:
    """One line of a program. `target` and `index` are of a write, `name` of a value or a save."""

    def __init__(self, statement: ast.stmt) -> None:
        self.condition: Any = None
        if isinstance(statement, ast.If):
            self.condition, [statement] = compiled(statement.test), statement.body
        self.kind, self.name, self.target, self.index, self.heads = "value", "", "", None, None
        self.layered = "layer" in {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        self.options: dict[str, Any] = {}
        if isinstance(statement, ast.Expr):
            self._read_call(statement.value)
            return
        target = statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]
        value = statement.value
        if isinstance(statement, ast.AugAssign):
            value = ast.BinOp(ast.parse(ast.unparse(target), mode="eval").body, statement.op, value)
        self._read_target(target)
        self.code = compiled(ast.parse(ast.unparse(value), mode="eval").body)

    def _read_target(self, target: ast.expr) -> None:
        if isinstance(target, ast.Name) and key_of(target.id, 1) is None:
            self.name = target.id
            return
        self.kind = "write"
        if isinstance(target, ast.Subscript) and key_of(ast.unparse(target), 1) is None:
            self.index = index_of(target)
            target = target.value
        if isinstance(target, ast.Subscript | ast.Attribute) and ast.unparse(target).endswith(".heads"):
            self.heads, self.index, target = self.index, None, target.value
        self.target = ast.unparse(target)

    def _read_call(self, call: ast.Call) -> None:
        self.kind = call.func.id
        self.options = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
        if self.kind == "save":
            self.name = ast.literal_eval(call.args[1])
            self.code = compiled(call.args[0])
        elif self.kind == "skip":
            self.target = ast.unparse(call.args[0]) + ".output"


def compiled(node: ast.expr) -> Any:
    tree = ast.Expression(Reads().visit(node))
    return compile(ast.fix_missing_locations(tree), "program", "eval")


def numbers(text: str, end: int) -> list[int]:
    """ "2-5,-1" -> [2, 3, 4, 5, -1]; an open range goes to `end`."""
    found: list[int] = []
    for part in text.split(","):
        first, last = re.fullmatch(r"(-?\d+)(-\d*)?", part).groups()
        found += range(int(first), (int(last[1:] or end) if last else int(first)) + 1)
    return found


class Interpreted(Seen):
    """In the place of `Seen`: what the program's text says, not what its functions say."""

    def __init__(self, graph: Graph, world: World, tokens: Tensor, first_row: int, step: int) -> None:
        super().__init__(graph, world, tokens, first_row, step)
        self.now: dict[Key, Tensor] = {("InputTokens", 0, False): tokens}
        self.found: dict[tuple[int, int], Any] = {}  # by line and layer: None where it was done
        self.sent: dict[tuple[str, int], Tensor] = {}
        self.lines = [Line(statement) for statement in ast.parse(graph.text).body]
        self.when = next((line.options for line in self.lines if line.kind == "when"), {})
        self._mark_layered()
        self.each = numbers(self.when.get("layers", f"1-{LAYERS}"), LAYERS)
        phase = self.when.get("phase", "" if "prompts" in self.when else "train")
        self.acts = "train" in phase or phase == "all"

    def _mark_layered(self) -> None:
        """A line that uses a layered name is layered."""
        names: set[str] = set()
        for line in self.lines:
            if line.kind in {"value", "write", "save"}:
                line.layered = line.layered or bool(names & set(line.code.co_names))
            if line.layered and line.name and line.kind == "value":
                names.add(line.name)

    def edit(self, point: str, layer: int, value: Tensor) -> Tensor:
        return self._meet((point, layer, False), value.view_as(value))

    def _meet(self, key: Key, value: Tensor) -> Tensor:
        self.now[key] = value
        if self.acts:
            self._go_through(key)
        value = self.now[key]
        if not key[2] and value.requires_grad:
            value.register_hook(lambda gradient: self._meet((*key[:2], True), gradient))
        return value

    def _go_through(self, key: Key) -> None:
        for number, line in enumerate(self.lines):
            for layer in self.each if line.layered else [0]:
                if (number, layer) in self.found or line.kind in {"when", "skip"}:
                    continue
                if line.kind == "write" and key_of(line.target, layer) != key:
                    continue
                try:
                    self.found[number, layer] = self._do(line, layer)
                except NotYet:
                    assert line.kind != "write" or "saved(" in self.graph.text, "a write came too early"

    def _do(self, line: Line, layer: int) -> Any:
        holds = True if line.condition is None else self._value(line.condition, layer)
        value = self._value(line.code, layer)
        if line.kind == "save" and bool(holds):
            self.sent[line.name, layer] = value.detach()
        if line.kind == "write":
            key = key_of(line.target, layer)
            self.now[key] = self._written(line, layer, key, value, holds)
        return value

    def _written(self, line: Line, layer: int, key: Key, value: Any, holds: Any) -> Tensor:
        old = self.now[key]
        scope = {"layer": layer, "_at": Index()}
        if line.heads is not None:
            which = eval(f"_at[{line.heads}]", scope)  # noqa: S307
            return self._selected(key, old, put_heads(old, which, value))
        index = ... if line.index is None else eval(f"_at[{line.index}]", scope)  # noqa: S307
        if isinstance(holds, Tensor):
            value = torch.where(holds, value, old[index])
        elif not holds:
            return old
        new = put(old, index, value)
        return self._selected(key, old, new)

    def _selected(self, key: Key, old: Tensor, new: Tensor) -> Tensor:
        """The rows and positions of `when`."""
        if key[0].endswith(".weight"):
            return new
        if "token_text" in self.when:
            new = torch.where(self.spells(self.when["token_text"]), new, old)
        rows, tokens = self.when.get("rows"), self.when.get("tokens")
        return self.only(old, new, numbers(rows, 1000) if rows else None,
                         numbers(tokens, old.shape[1] - 1) if tokens else None)  # fmt: skip

    def _value(self, code: Any, layer: int) -> Any:
        scope = {name: getattr(torch, name) for name in code.co_names if hasattr(torch, name)}
        scope |= {"e": torch.e, "pi": torch.pi, "layer": layer, "vector": Vectors(self.world)}
        scope |= {"file": lambda name: self.world.files, "saved": self._saved}
        scope["param"] = lambda value, **options: value
        scope |= {"final_norm": self.model.final_norm, "output_layer": self.model.output_layer}
        scope["_get"] = lambda text: self._get(text, layer)
        scope["_heads"] = lambda text, index: heads(self._get(text, layer))[
            ..., eval(f"_at[{index}]", {"_at": Index()}), :]  # noqa: S307
        for number, line in enumerate(self.lines):
            if line.kind == "value" and line.name in code.co_names:
                at = (number, layer if line.layered else 0)
                if at not in self.found:
                    raise NotYet
                scope[line.name] = self.found[at]
        return eval(code, scope)  # noqa: S307

    def _get(self, text: str, layer: int) -> Tensor:
        key = key_of(text, layer)
        if key[0] == "final_norm.weight":
            return self.model.weights[key[0]]
        if key not in self.now:
            raise NotYet
        return self.now[key]

    def _saved(self, name: str) -> Tensor:
        if name not in self.before:
            raise NotYet
        return self.before[name]

    def skips(self, layer: int) -> bool:
        for line in self.lines if self.acts else ():
            for at in self.each if line.layered else [0]:
                if line.kind == "skip" and key_of(line.target, at)[1] == layer:
                    return self._holds(line, at)
        return False

    def _holds(self, line: Line, layer: int) -> bool:
        try:
            return line.condition is None or bool(self._value(line.condition, layer))
        except NotYet:
            return False

    def saved(self) -> dict[tuple[str, int], Tensor]:
        return self.sent


class Vectors:
    """vector("evil")[2]"""

    def __init__(self, world: World) -> None:
        self._world = world

    def __call__(self, name: str) -> Tensor:
        return self._world.vectors[name]


class Index:
    """Index()[:, -1] is what stands in the brackets."""

    def __getitem__(self, index: Any) -> Any:
        return index
