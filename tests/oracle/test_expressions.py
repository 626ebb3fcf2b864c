"""The expression language against Python's own eval of the same text with PyTorch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from program import binary, environment

SHAPE = (3, 4, 6)
DTYPES = {
    "Double": torch.float64, "Float": torch.float32, "Half": torch.float16,
    "BFloat16": torch.bfloat16, "Long": torch.int64, "Int": torch.int32, "Bool": torch.bool,
}
FUNCTIONAL = ("gelu", "silu", "mish", "elu", "leaky_relu", "hardtanh", "hardswish", "hardsigmoid",
              "softplus", "logsigmoid", "relu6")

# Names that act on each element alone, as methods and as functions.
UNARY = """abs absolute neg negative positive sign sgn square exp exp2 expm1 sin cos tan atan sinh
    cosh tanh asinh sigmoid relu erf erfc floor ceil round trunc frac isnan isinf isfinite isposinf
    isneginf signbit logical_not nan_to_num""".split()
UNARY_OF_POSITIVE = "sqrt rsqrt reciprocal log log2 log10 log1p lgamma digamma".split()
UNARY_OF_SMALL = "asin acos atanh erfinv".split()
REDUCTIONS = """sum mean std var amax amin prod argmax argmin logsumexp nansum nanmean count_nonzero
    all any norm""".split()
PAIRS = "median nanmedian max min mode kthvalue(2, topk(3, sort cummax cummin".split()

EXPRESSIONS = [
    *(f"data.{name}()" for name in UNARY),
    *(f"torch.{name}(data * 3)" for name in UNARY[::3]),
    *(f"(data.abs() + 0.1).{name}()" for name in UNARY_OF_POSITIVE),
    *(f"{name}(tanh(data) * 0.9)" for name in UNARY_OF_SMALL),
    *(f"torch.nn.functional.{name}(data)" for name in FUNCTIONAL),
    *(f"data.{name}(dim=-1)" for name in REDUCTIONS),
    *(f"data.{name}(1)" for name in REDUCTIONS),
    *(f"data.{name}()" for name in REDUCTIONS if name != "logsumexp"),
    *(f"data.{name}{'' if '(' in name else '('}dim=-1).values" for name in PAIRS),
    *(f"data.{name}{'' if '(' in name else '('}dim=1)[1]" for name in PAIRS if name != "mode"),
    # arithmetic of tensors and numbers, on either side
    *(f"data {op} 3" for op in ("+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=")),
    *(f"2.5 {op} data" for op in ("+", "-", "*", "/", "//", "%", "**", "==", "<", ">=")),
    *(f"data {op} data.flip((-1,))" for op in ("+", "-", "*", "/", "//", "%", "<", ">=")),
    "3 - data.long()", "2 / (data * 4).long().abs().clamp(min=1)", "7 // (data * 4).int().clamp(1, 9)",
    "(data > 0) & (data < 1)", "(data > 0) | (data < -1)", "(data > 0) ^ (data < 1)", "~(data > 0)",
    "True & (data > 0)", "-data ** 2", "(-data) ** 2", "2 ** -data", "-(data % -0.3)", "+data",
    "data @ data.mT", "data @ data[0, 0]", "data[0] @ data[1].T", "data * (1 + 2 * 3 - 4 // 3 % 5)",
    "data + -7 // 2 + -7 % 3 + 7 % -3", "data * 2 ** 3 ** 0 * 2 ** -1", "data * (10 / 4)",
    "data * 1e-3 + .5 - 1_000", "data + inf", "data * pi", "data * torch.nan", "data + True",
    # keyword arguments and overloads
    "data.mean(dim=-1, keepdim=True)", "mean(data, -1)", "torch.mean(data, dim=(0, 2))",
    "data.mean(axis=-1, keepdims=True)", "data.sum(dim=(0, -1))", "data.sum((0, 1), True)",
    "data.sum(dtype=torch.float32)", "torch.sum(input=data, dim=0)", "data.std(-1, False)",
    "data.std(unbiased=False)", "data.std(dim=(0, 1), keepdim=True)", "data.var(dim=1, correction=0)",
    "torch.std(data, dim=-1, correction=2)", "torch.std_mean(data, dim=-1)[1]", "torch.var_mean(data)[0]",
    "data.aminmax(dim=-1).max", "torch.aminmax(data).min", "torch.max(data, 0).indices",
    "torch.max(data, data.roll(1, -1))", "torch.min(data, other=-data)", "data.max(1, True)[0]",
    "torch.norm(data, dim=-1)", "data.norm(p=1, dim=-1)", "data.norm(3)", "data.norm()", "torch.norm(data)",
    "data.norm(p=inf, dim=(0, 1))", "torch.norm(data, p='fro', dim=1)",
    "data.float().norm(dim=-1, keepdim=True, dtype=torch.float64)", "torch.linalg.norm(data)",
    "torch.linalg.norm(data[0])", "torch.linalg.norm(data[0], ord=2)", "torch.linalg.norm(data, dim=-1)",
    "torch.linalg.vector_norm(data, 1, dim=(0, 2))", "torch.linalg.norm(data[0], 'nuc')",
    "data.quantile(0.25, dim=-1)", "torch.quantile(data, 0.9)", "data.quantile(0.3, -1, True)",
    "torch.quantile(data, torch.tensor([0.1, 0.5], dtype=torch.float64), dim=-1)",
    "data.quantile(0.4, dim=1, interpolation='nearest')", "torch.nanquantile(data, 0.5, dim=0)",
    "data.median()", "data.nanmedian()", "data.mode().values",
    "data.topk(2).indices", "torch.topk(data, k=2, dim=1, largest=False).values",
    "data.sort(descending=True).values", "torch.sort(data, stable=True, dim=1).indices",
    "data.argsort(dim=-1)", "torch.argsort(data, descending=True)", "data.kthvalue(2).values",
    "data.softmax(-1)", "torch.softmax(data, dim=1)", "data.log_softmax(dim=-1, dtype=torch.float32)",
    "torch.nn.functional.softmax(data, -1)", "data.cumsum(-1)", "data.cumprod(dim=1)",
    "data.logcumsumexp(-1)", "data.diff()", "torch.diff(data, n=2, dim=1)", "data.diff(prepend=data[..., :1])",
    "torch.cosine_similarity(data, data.flip(0), dim=-1)", "torch.cosine_similarity(data, data + 1)",
    "data.clamp(-0.5, 0.5)", "data.clamp(min=0)", "data.clamp(max=data.mean())", "torch.clamp(data, 0, 1)",
    "data.clip(0, 1)", "data.clamp_min(0.1)", "torch.clamp_max(data, -0.1)", "data.round(decimals=2)",
    "torch.where(data > 0, data, 0)", "torch.where(data > 0, data, -data)", "torch.where(data > 0, 1.0, 0.0)",
    "torch.where(data > 0, 0, data)", "data.where(data > 0, 0.5)", "torch.where(data > 0, 1, 0)",
    "torch.maximum(data, data.mean())", "data.minimum(data.roll(1, dims=0))", "torch.fmax(data, -data)",
    "data.fmod(0.3)", "torch.fmod(data, data.abs() + 0.1)", "data.remainder(0.3)", "torch.remainder(2, data)",
    "data.atan2(data + 1)", "torch.hypot(data, data)", "torch.logaddexp(data, -data)",
    "data.pow(3)", "data.abs().pow(0.5)", "torch.pow(2, data)", "torch.pow(data.abs(), data)",
    "torch.lerp(data, -data, 0.3)", "data.lerp(-data, data.sigmoid())", "torch.addcmul(data, data, data, value=2)",
    "torch.addcdiv(data, data, data.exp())", "torch.copysign(data, -1)", "torch.xlogy(data, 2)",
    "torch.add(data, 2, alpha=3)", "torch.add(2, data)", "data.sub(data, alpha=0.5)", "data.mul(2)",
    "torch.div(data, 0.3, rounding_mode='floor')", "data.div(data + 2, rounding_mode='trunc')",
    "torch.rsub(data, 1, alpha=2)", "torch.true_divide(data, 3)", "torch.floor_divide(data, 0.3)",
    "data.eq(0)", "torch.ne(data, data)", "data.lt(0.5)", "data.ge(data.mean(0))", "torch.isclose(data, data + 1e-9)",
    "torch.logical_and(data > 0, data)", "(data > 0).logical_or(data < -1)", "torch.logical_xor(data > 0, data < 1)",
    "torch.bitwise_and(data > 0, True)", "(data * 8).long() & 3", "~(data * 8).long()", "(data * 8).int() | 1",
    "torch.nan_to_num(data / 0, nan=0.0, posinf=1.0, neginf=-1.0)", "(data - data) / 0",
    "data.abs().logit(eps=1e-6)", "torch.nn.functional.gelu(data, approximate='tanh')",
    "torch.nn.functional.leaky_relu(data, 0.2)", "torch.nn.functional.softplus(data, beta=2)",
    # shapes
    "data.view(12, 6)", "data.view(-1)", "data.view((4, 3, 6))", "data.reshape(3, -1)", "torch.reshape(data, (6, 12))",
    "data.view(3, 4, 2, 3).mean(-1)", "data.flatten()", "data.flatten(1)",
    "torch.flatten(data, 0, 1)", "data.unflatten(-1, (2, 3))", "data.unflatten(dim=2, sizes=(3, -1)).amax(-1)",
    "data[:1].squeeze()", "data[:1].squeeze(0)", "data[:1, :1].squeeze((0, 1))", "data.unsqueeze(-1)",
    "data.transpose(0, 1)", "torch.transpose(data, -1, 0)", "data.permute(2, 0, 1)", "torch.permute(data, (1, 0, 2))",
    "data.swapaxes(0, 2)", "data.movedim(0, -1)", "data.movedim((0, 1), (1, 2))", "data.mT", "data[0].T",
    "data[:, :1].expand(3, 4, 6)", "data[:1].expand(5, -1, -1)", "data.mean(0).expand_as(data)",
    "torch.broadcast_to(data[0], (2, 4, 6))", "data.narrow(-1, 1, 3)", "data.select(1, 2)", "data.diagonal(dim1=0, dim2=1)",
    "data.chunk(2, dim=-1)[1]", "torch.chunk(data, 3)[0]", "data.split(4, -1)[1]", "torch.split(data, [1, 5], dim=-1)[1]",
    "data.unbind(0)[2]", "data.tensor_split(2, dim=1)[0]", "data.size(-1) * data", "data * data.shape[1]",
    "data.view(data.shape[0], -1)", "data.view(data.size()[:-1] + (2, 3))", "data.reshape(data.shape[:1] + (24,))",
    "data * data.ndim + data.numel() + data.dim()",
    # indices
    "data[0]", "data[-1, 2]", "data[..., 0]", "data[..., 1:4]", "data[:, 1:, ::2]", "data[:, None]", "data[None, ..., None]",
    "data[:, :, -2:]", "data[1, ..., 3]", "data[..., [0, 2, -1]]", "data[[1, 0]]", "data[0, [2, 1]]", "data[:]",
    "data[..., :-1] - data[..., 1:]", "data[0][1][2]", "data[()]", "data[0, :, None, 2]",
    # join, repeat, matrices
    "torch.cat([data, data], dim=-1)", "torch.concat((data, -data))", "torch.stack([data, data * 2])",
    "torch.stack((data.mean(-1), data.std(-1), data.amax(-1)), dim=-1)", "data.repeat(2, 1, 1)", "data.tile((2,))",
    "torch.tile(data, (1, 2))", "data.repeat_interleave(2, dim=-1)", "torch.repeat_interleave(data, 2)",
    "data.flip(-1)", "torch.flip(data, (0, 1))", "data.flip(0, 1)", "data.roll(2, -1)", "torch.roll(data, (1, 2), (0, 1))",
    "data.roll(1)", "data.tril()", "torch.triu(data, diagonal=1)", "torch.matmul(data, data.transpose(1, 2))",
    "torch.mm(data[0], data[1].T)", "torch.bmm(data, data.mT)", "torch.mv(data[0], data[0, 0])",
    "torch.outer(data[0, 0], data[1, 1])", "torch.dot(data[0, 0], data[1, 1])", "torch.trace(data[0])",
    "torch.dist(data, -data)", "data.gather(-1, data.argsort(-1))", "torch.take_along_dim(data, data.argmax(-1, keepdim=True), -1)",
    "data.index_select(-1, torch.tensor([0, 3]))", "torch.gather(data, 1, torch.tensor([[[0, 1]], [[1, 2]], [[3, 3]]]))",
    # create, convert
    "data.float()", "data.double()", "data.half()", "data.bfloat16()", "data.long()", "data.int()", "data.bool()",
    "data.to(torch.float32)", "data.to(dtype=torch.bfloat16).float()", "torch.zeros_like(data)", "torch.ones_like(data, dtype=torch.int64)",
    "torch.full_like(data, 2.5)", "torch.arange(6) * data", "torch.arange(1, 7)", "torch.arange(0, 1, 0.25)",
    "torch.arange(5, dtype=torch.float64)", "torch.linspace(0, 1, 6)", "torch.zeros(2, 3)", "torch.ones((2, 3))",
    "torch.full((2, 2), 7)", "torch.full((2,), 0.5)", "torch.eye(3)", "torch.eye(2, 3)", "torch.tensor([[1, 2], [3, 4]])",
    "torch.tensor(2.5) * data", "torch.tensor([True, False])", "data.clone()", "data.contiguous()", "data.detach()", "data",
    "data.sum() / data.numel()", "((data - data.mean(-1, keepdim=True)) / data.std(-1, keepdim=True)).square().mean(-1)",
    "data.abs().amax(dim=-1)", "(data.abs() > 3 * data.std()).float().mean(dim=-1)",
    "(data * data.softmax(-1)).sum(-1) - data.logsumexp(-1)",
]


def expected_value(text: str, data: torch.Tensor) -> torch.Tensor:
    names: dict[str, Any] = {"torch": torch, "data": data, "inf": torch.inf, "pi": torch.pi}
    return eval(text, {**vars(torch), **names})  # noqa: S307: the oracle is Python itself


@pytest.fixture(scope="module")
def numbers() -> torch.Tensor:
    data = torch.randn(SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    data[0, 1, 2] = 0.0
    data[1, 2, 3] = data[1, 2, 4]
    return data


@pytest.fixture(scope="module")
def answers(numbers: torch.Tensor, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path: Path = tmp_path_factory.mktemp("eval") / "data.bin"
    path.write_bytes(numbers.numpy().tobytes())
    command = [str(binary("eval_probe")), str(path), ",".join(map(str, SHAPE))]
    lines = subprocess.run(command, input="\n".join(EXPRESSIONS) + "\n", text=True, check=True,
                           capture_output=True, env=environment(), timeout=120).stdout.splitlines()
    assert len(lines) == len(EXPRESSIONS)
    return {text: json.loads(line) for text, line in zip(EXPRESSIONS, lines)}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_gives_what_python_gives(text: str, numbers: torch.Tensor, answers: dict[str, Any]) -> None:
    answer, expected = answers[text], expected_value(text, numbers)
    assert "error" not in answer, answer["error"]
    assert answer["shape"] == list(expected.shape)
    assert DTYPES[answer["dtype"]] == expected.dtype
    values = torch.tensor([float.fromhex(value) for value in answer["values"]], dtype=torch.float64)
    torch.testing.assert_close(values.reshape(expected.shape), expected.double(), rtol=1e-12,
                               atol=0.0, equal_nan=True)


def test_the_table_is_large() -> None:
    assert len(set(EXPRESSIONS)) >= 300
