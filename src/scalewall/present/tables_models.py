"""Models and frameworks as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from scalewall.present.tables import show_table
from scalewall.workload.model import Model

WORDS = ("gated", "tied", "parallel", "qkv_bias", "mlp_bias", "norm_bias", "qk_norm", "relative_positions")


def show_models(console: Console, models: Sequence[Model]) -> None:
    """Print the catalogue of models."""
    show_table(console, models_table(models))


def models_table(models: Sequence[Model]) -> Table:
    """Return models as a table, one a row."""
    table = Table(box=None, pad_edge=False)
    names = ("name", "model", "parameters", "layers", "width", "heads", "kv", "head", "ff", "vocabulary")
    for name in names:
        table.add_column(name, justify="left" if name in {"name", "model"} else "right", no_wrap=True)
    for model in models:
        sizes = (model.layers, model.d_model, model.heads, model.kv_heads, model.head_dim, model.d_ff)
        cells = (str(size) for size in (*sizes, model.vocab))
        table.add_row(Text(model.name), Text(model.title), f"{model.parameters:,}", *cells)
    return table


def model_entry(model: Model, sequence: int) -> Group:
    """Return one model: its dimensions, its exact counts, and the arithmetic of training on a token."""
    table = Table(box=None, pad_edge=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("meaning")
    for name, value, meaning in _lines(model, sequence):
        table.add_row(name, value, Text(meaning))
    head = f"{model.name}: {model.title}" if model.title else model.name
    said = [name.replace("_", " ") for name in WORDS if getattr(model, name)]
    lines: list[RenderableType] = [Text(head, style="bold"), table]
    if said:
        lines.append(Text(f"Also: {', '.join(said)}."))
    return Group(*lines, *([Text(f"Source: {model.source}.")] if model.source else []))


def _lines(model: Model, sequence: int) -> Iterator[tuple[str, str, str]]:
    sizes = ("layers", "d_model", "heads", "kv_heads", "head_dim", "d_ff", "vocab")
    fields = {a.name: a.metadata["doc"] for a in model.__attrs_attrs__}
    for name in sizes:
        yield name, f"{getattr(model, name):,}", fields[name]
    if model.window is not None:
        yield "window", f"{model.window:,}", f"{fields['window']}; in {model.windowed_layers} layers"
    yield "parameters", f"{model.parameters:,}", "all, a tied output matrix counted once"
    yield "  embedding", f"{model.embedding_parameters:,}", "before the first block"
    yield "  a block", f"{model.layer_parameters:,}", f"times {model.layers}"
    yield "  head", f"{model.head_parameters:,}", "after the last block"
    yield "  multiplied", f"{model.matmul_parameters:,}", "what every token is multiplied with"
    if model.published_parameters:
        kind = "as counted" if model.published_exact else "as rounded"
        yield "published", f"{model.published_parameters:,}", f"{kind} by its authors"
    flop, full = (float(model.training_flop(sequence, causal_half=half)) for half in (True, False))
    about = f"training on a token of a sequence of {sequence:,}"
    yield "FLOP a token", f"{flop:.5g}", f"{about}, causal attention at half"
    yield "", f"{full:.5g}", "the same with all of it, as many reports count"


def frameworks_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    """Return frameworks as a table, one a row, with what each can hide behind compute."""
    table = Table(box=None, pad_edge=False)
    for name in ("name", "attention", "overlaps", "meaning"):
        table.add_column(name, no_wrap=name != "meaning", overflow="fold")
    for entry in entries:
        hidden = [kind for kind in ("tensor", "data", "pipeline") if entry[f"overlap_{kind}"]]
        table.add_row(entry["name"], entry["attention"], ", ".join(hidden) or "nothing", Text(entry["doc"]))
    return table
