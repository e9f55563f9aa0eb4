"""The curve that the paper's published code gives, see ``tests/data/README.md``."""

from __future__ import annotations

import csv
from pathlib import Path

import attrs

_FILE = Path(__file__).parents[1] / "data" / "paper_curve_h100_dense.csv"


@attrs.frozen
class Row:
    d_model: int = attrs.field(converter=int)
    layers: int = attrs.field(converter=int)
    batch_tokens: int = attrs.field(converter=int)
    training_flop: float = attrs.field(converter=float)
    months: float = attrs.field(converter=float)
    mfu: float = attrs.field(converter=float)
    n_gpus: int = attrs.field(converter=int)
    tp: int = attrs.field(converter=int)
    pp: int = attrs.field(converter=int)
    dp: int = attrs.field(converter=int)
    microbatches: int = attrs.field(converter=int)
    interleave: int = attrs.field(converter=int)


with _FILE.open(encoding="utf-8", newline="") as file:
    CURVE = [Row(**row) for row in csv.DictReader(file)]
