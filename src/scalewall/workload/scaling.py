"""Scaling policies: from training compute to the model, its batch and its tokens.

Every policy is a power law of the variables below and can be swapped by name or typed as text.

========  ==================================================
``C``     training compute, FLOP
``N``     parameters, all of them
``D``     training tokens
``S``     sparsity factor: total over active parameters
``d, f``  width of the model and of its MLP
========  ==================================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import attrs

from scalewall.errors import InputError, nearest
from scalewall.units import quantity
from scalewall.workload.operators import Operator, ideal_block

VARIABLES = ("C", "N", "D", "S", "d", "f")
SPARSITY_VARIABLES = ("d", "f")

BATCH_LAWS = {
    "baseline": "2^22 * S^0.5 * (C/3e23)^(1/6)",
    "constant": "2^22",
    "zhang-2024": "17.75 * D^0.47",
    "deepseek-2024": "0.2920 * C^0.3271",
}
"""Tokens a batch. Baseline: 4Mi tokens at GPT-3's compute, growing like the reciprocal of the
reducible loss (arXiv 1812.06162 with 2203.15556), by the square root of the sparsity for sparse
models (arXiv 2411.01137). `zhang-2024`: arXiv 2410.21676. `deepseek-2024`: arXiv 2401.02954."""

DEPTH_LAWS = {"baseline": "0.10056 * (d*f)^0.3751", "constant": "128"}
"""Blocks. Baseline: fit of arXiv 2411.01137 to the models of Hoffmann et al. (arXiv 2203.15556)."""

SPARSITY_LAWS = {"dense": "1", "baseline": "8 * (d*f/(4*12288^2))^0.5"}
"""Total over active parameters, never below 1. Baseline: arXiv 2411.01137."""

LAW_SOURCES = {
    "batch": "baseline: arXiv 1812.06162 with 2203.15556; zhang-2024: 2410.21676; deepseek-2024: 2401.02954",
    "depth": "baseline: fit of arXiv 2411.01137 to the models of 2203.15556",
    "sparsity": "baseline: arXiv 2411.01137",
}

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z]+)|(.))")
MOST_FLOP, MOST_BATCH = 1e45, 1e15  # far above anything that can be asked for in earnest
_EXAMPLE = "a power law such as '17.75*D^0.47'"


@attrs.frozen
class PowerLaw:
    """``coefficient · Π variable^exponent``: a straight line in logarithms."""

    coefficient: float
    exponents: Mapping[str, float] = attrs.field(factory=dict)
    text: str = attrs.field(default="", eq=False)

    def log(self, logs: Mapping[str, float]) -> float:
        """Return the logarithm of the law where the variables' logarithms are `logs`."""
        return math.log(self.coefficient) + sum(e * logs[name] for name, e in self.exponents.items())

    @classmethod
    def parse(cls, text: str, field: str = "law", variables: tuple[str, ...] = VARIABLES) -> PowerLaw:
        """Return the law that `text` writes with ``* / ^ ( )``, numbers and `variables`.

        Raises
        ------
        InputError
            If `text` is no such product, or an exponent is missing.
        """
        try:
            return _Parser(text, field, variables).law()
        except RecursionError:
            raise InputError(field, _EXAMPLE, text, "Its parentheses are nested too deep.") from None

    @classmethod
    def named(
        cls, text: str, laws: Mapping[str, str], field: str, variables: tuple[str, ...] = VARIABLES
    ) -> PowerLaw:
        """Return the law called `text` in `laws`, or else the one that `text` writes.

        Raises
        ------
        InputError
            If it is neither.
        """
        if text in laws:
            return attrs.evolve(cls.parse(laws[text], field, variables), text=text)
        if re.fullmatch(r"[A-Za-z][\w-]+", str(text)):
            must = f"one of {', '.join(laws)}, or {_EXAMPLE}"
            raise InputError(field, must, text, nearest(str(text), laws))
        return cls.parse(text, field, variables)


class _Parser:
    """Recursive descent over ``product := factor (('*' | '/') factor)*``, ``factor := atom ['^' atom]``."""

    def __init__(self, text: str, field: str, variables: tuple[str, ...]) -> None:
        self.text, self.field, self.variables = str(text), field, variables
        self.tokens = [m[1] or m[2] or m[3] for m in _TOKEN.finditer(self.text) if m[0].strip()]
        self.at = 0

    def law(self) -> PowerLaw:
        law = self.product()
        if self.at < len(self.tokens):
            raise self.error(f"'{self.tokens[self.at]}' does not belong there.")
        if not all(map(math.isfinite, law.exponents.values())) or not 0 < law.coefficient < math.inf:
            raise self.error("A number in it is too large or too small.")
        return PowerLaw(law.coefficient, law.exponents, text=self.text.strip())

    def error(self, hint: str) -> InputError:
        return InputError(self.field, _EXAMPLE, self.text, hint)

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def product(self) -> PowerLaw:
        law = self.factor()
        while self.peek() in ("*", "/"):
            sign = 1.0 if self.take() == "*" else -1.0
            law = _times(law, _power(self.factor(), sign))
        return law

    def factor(self) -> PowerLaw:
        law = self.atom("A number or variable")
        if self.peek() == "^":
            self.take()
            sign = -1.0 if self.peek() == "-" else 1.0
            if self.peek() in ("-", "+"):
                self.take()
            exponent = self.atom("The exponent after '^'")
            if exponent.exponents:
                raise self.error("An exponent is a number.")
            try:
                law = _power(law, sign * exponent.coefficient)
            except OverflowError:
                raise self.error("A number in it is too large.") from None
        return law

    def atom(self, what: str) -> PowerLaw:
        token = self.take()
        if token == "(":
            law = self.product()
            if self.take() != ")":
                raise self.error("A ')' is missing.")
            return law
        if token in self.variables:
            return PowerLaw(1.0, {token: 1.0})
        if token.isalpha():
            raise self.error(f"Variables are {', '.join(self.variables)}.")
        try:
            number = float(token)
        except ValueError:
            raise self.error(f"{what} is missing.") from None
        if not 0 < number < math.inf:
            raise self.error("Its numbers must be positive.")
        return PowerLaw(number)


def _times(a: PowerLaw, b: PowerLaw) -> PowerLaw:
    names = {**a.exponents, **b.exponents}
    exponents = {n: a.exponents.get(n, 0.0) + b.exponents.get(n, 0.0) for n in names}
    return PowerLaw(a.coefficient * b.coefficient, exponents)


def _power(a: PowerLaw, exponent: float) -> PowerLaw:
    return PowerLaw(a.coefficient**exponent, {n: e * exponent for n, e in a.exponents.items()})


@attrs.frozen(kw_only=True)
class Workload:
    """A model with its batch and its tokens, as the ideal fidelity sees it.

    In a `whole` workload dimensions are integers: shards are rounded down, and padded up to the
    matrix unit's tile. Otherwise dimensions are real numbers that an architect would round to suit
    the sharding, so that only a shard smaller than one tile is padded.
    """

    training_flop: float = quantity("FLOP", "training compute, 6 · active parameters · tokens")
    d_model: float = quantity("1", "width of the model")
    d_ff: float = quantity("1", "width of the MLP")
    layers: float = quantity("1", "number of blocks", least=1.0, open_below=False)
    sparsity: float = quantity("1", "total over active parameters", least=1.0, open_below=False)
    batch_tokens: float = quantity("tokens", "tokens a step")
    tokens: float = quantity("tokens", "tokens of the whole run")
    whole: bool = attrs.field(default=False, metadata={"doc": "whether dimensions are integers"})

    @property
    def parameters(self) -> float:
        """All parameters: two matrices a block and expert."""
        return 2.0 * self.d_model * self.d_ff * self.layers * self.sparsity

    @property
    def steps(self) -> float:
        """Optimizer steps of the run."""
        return self.tokens / self.batch_tokens

    @property
    def block(self) -> tuple[Operator, ...]:
        """The operators of one block."""
        return ideal_block(self.d_model, self.d_ff)


def _batch_law(law: PowerLaw | str) -> PowerLaw:
    return law if isinstance(law, PowerLaw) else PowerLaw.named(law, BATCH_LAWS, "batch")


def _depth_law(law: PowerLaw | str) -> PowerLaw:
    return law if isinstance(law, PowerLaw) else PowerLaw.named(law, DEPTH_LAWS, "depth")


def _sparsity_law(law: PowerLaw | str) -> PowerLaw:
    if isinstance(law, PowerLaw):
        return law
    return PowerLaw.named(law, SPARSITY_LAWS, "sparsity", SPARSITY_VARIABLES)


@attrs.frozen(kw_only=True)
class Scaling:
    """How model, batch and tokens grow with compute: one policy for each."""

    batch: PowerLaw = attrs.field(
        default=PowerLaw.named("baseline", BATCH_LAWS, "batch"),
        converter=_batch_law,
        metadata={"read": _batch_law, "unit": "tokens", "doc": "tokens a batch"},
    )
    depth: PowerLaw = attrs.field(
        default=PowerLaw.named("baseline", DEPTH_LAWS, "depth"),
        converter=_depth_law,
        metadata={"read": _depth_law, "unit": "1", "doc": "number of blocks"},
    )
    sparsity: PowerLaw = attrs.field(
        default=PowerLaw.named("dense", SPARSITY_LAWS, "sparsity"),
        converter=_sparsity_law,
        metadata={"read": _sparsity_law, "unit": "1", "doc": "total over active parameters"},
    )
    tokens_per_parameter: float = quantity(
        "1", "training tokens a parameter", default=20.0, source="arXiv 2203.15556"
    )
    ff_ratio: float = quantity(
        "1", "width of the MLP over that of the model", default=4.0, source="arXiv 2411.01137"
    )

    def workload(self, training_flop: float) -> Workload:
        """Return what is trained with `training_flop`.

        Each law is a line in logarithms, so the width is the root of a line: parameters by compute
        equal parameters by shape, ``sqrt(C·S/(6·r)) = 2·d·f·L·S``.

        Raises
        ------
        InputError
            If the depth law leaves no width that fits, or the model would be less than one block.
        """
        if not 0 < training_flop <= MOST_FLOP:
            raise InputError(
                "training_flop", f"a positive number of FLOP, at most {MOST_FLOP:g}", training_flop
            )
        for sparsity in (self.sparsity, PowerLaw(1.0)):
            low, high = (self._logs(x, training_flop, sparsity) for x in (0.0, 1.0))
            slope = high["residual"] - low["residual"]
            if not slope > 1e-9:
                raise InputError("depth_law", "one under which wider models are larger", self.depth.text)
            logs = self._logs(-low["residual"] / slope, training_flop, sparsity)
            if logs["S"] >= 0.0:  # a sparsity below one means a dense model
                break
        try:
            shape = {name: math.exp(logs[name]) for name in ("d", "f", "L", "S", "D")}
        except OverflowError:
            must = f"one that gives a finite model at {training_flop:.3g} FLOP"
            raise InputError("depth_law", must, self.depth.text) from None
        if shape["L"] < 1.0 or shape["d"] < 1.0:
            raise InputError("training_flop", "enough for a model of one block", training_flop)
        return Workload(
            training_flop=training_flop,
            d_model=shape["d"],
            d_ff=shape["f"],
            layers=shape["L"],
            sparsity=max(1.0, shape["S"]),
            batch_tokens=self.batch_tokens(logs),
            tokens=shape["D"],
        )

    def batch_tokens(self, logs: Mapping[str, float]) -> float:
        """Return the tokens of a batch where the variables' logarithms are `logs`.

        Raises
        ------
        InputError
            If there are more of them than `MOST_BATCH`.
        """
        log_tokens = self.batch.log(logs)
        if not log_tokens <= math.log(MOST_BATCH):
            must = f"one that gives at most {MOST_BATCH:g} tokens at {math.exp(logs['C']):.3g} FLOP"
            raise InputError("batch_law", must, self.batch.text)
        return math.exp(log_tokens)

    def _logs(self, log_d: float, training_flop: float, sparsity: PowerLaw) -> dict[str, float]:
        """Return the logarithms of all variables at width ``exp(log_d)``, and by how much N is missed."""
        logs = {"d": log_d, "f": log_d + math.log(self.ff_ratio), "C": math.log(training_flop)}
        logs["S"] = sparsity.log(logs)
        logs["N"] = 0.5 * (logs["C"] + logs["S"] - math.log(6.0 * self.tokens_per_parameter))
        logs["D"] = logs["N"] + math.log(self.tokens_per_parameter)
        logs["L"] = self.depth.log(logs)
        shape = math.log(2.0) + logs["d"] + logs["f"] + logs["L"] + logs["S"]
        return {**logs, "residual": shape - logs["N"]}
