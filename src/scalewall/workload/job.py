"""A training job: a model with its sequence length, its batch and the numbers it computes with."""

from __future__ import annotations

import attrs

from scalewall.errors import InputError, nearest
from scalewall.workload.model import Model


@attrs.frozen(kw_only=True)
class Recipe:
    """A mixed-precision recipe.

    `matmul` is the precision of the linear layers' multiplications (the output head and attention
    stay in 16 bits), `curve` whose efficiency they have, `word` the bytes of one of their inputs,
    `gradient` the bytes of a gradient as it is reduced over data-parallel ranks, `weights` the bytes
    of all states of one parameter but its optimizer's, `cast` whether inputs are converted first.
    """

    name: str
    matmul: str
    curve: str
    word: float
    gradient: float

    @property
    def cast(self) -> bool:
        """Whether inputs are converted from 16 bits before they are multiplied."""
        return self.word < 2.0


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(name="bf16", matmul="bf16", curve="bf16", word=2.0, gradient=4.0),
        Recipe(name="fp16", matmul="fp16", curve="bf16", word=2.0, gradient=2.0),
        Recipe(name="fp8", matmul="fp8", curve="fp8", word=1.0, gradient=4.0),
        Recipe(name="fp8-block", matmul="fp8", curve="fp8-block", word=1.0, gradient=4.0),
        Recipe(name="fp4", matmul="fp4", curve="fp4", word=0.5, gradient=4.0),
    )
}
"""`fp8` scales a tensor at a time, `fp8-block` a block at a time (also MXFP8), `fp4` is NVFP4.

bf16 and its successors sum gradients in 32 bits, fp16 in 16 (Megatron-LM's defaults).
"""


@attrs.frozen(kw_only=True)
class Job:
    """What is trained: `batch` sequences of `sequence` tokens a step, in the recipe `precision`."""

    model: Model
    sequence: int = attrs.field(metadata={"unit": "tokens", "doc": "length of a sequence"})
    batch: int = attrs.field(metadata={"unit": "1", "doc": "sequences a step, over all devices"})
    precision: str = attrs.field(
        default="bf16", metadata={"doc": f"mixed-precision recipe: {', '.join(RECIPES)}"}
    )

    @sequence.validator
    @batch.validator
    def _check_count(self, attribute: attrs.Attribute[int], value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10**9:
            raise InputError(attribute.name, "a whole number from 1 to 1,000,000,000", value)

    @precision.validator
    def _check_precision(self, attribute: object, value: str) -> None:
        if value not in RECIPES:
            raise InputError("precision", f"one of {', '.join(RECIPES)}", value, nearest(value, RECIPES))

    @property
    def recipe(self) -> Recipe:
        """The recipe that `precision` names."""
        return RECIPES[self.precision]

    @property
    def tokens(self) -> int:
        """Tokens a step."""
        return self.sequence * self.batch

    @property
    def model_flop(self) -> float:
        """Useful FLOP a step: forward and backward, causal attention at half, nothing recomputed."""
        return self.tokens * float(self.model.training_flop(self.sequence))
