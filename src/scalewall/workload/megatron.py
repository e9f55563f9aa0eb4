"""Megatron-LM arguments to a model: an argument list, or the text of a script that holds one.

Defaults are those of Megatron-LM's ``arguments.py``: layer norms, biases, learned positions, a tied
output, an MLP of four times the width (of 8/3 in multiples of 64 where it is gated), a vocabulary
padded to a multiple of 128 times the tensor-parallel size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from scalewall.errors import InputError, InputErrors
from scalewall.workload.model import MOST, Model

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_POSITIONS = ("learned_absolute", "rope", "yarn", "none")
_UNSUPPORTED = {
    "multi-latent-attention": "multi-latent attention",
    "is-hybrid-model": "layers other than attention and MLP",
    "hybrid-override-pattern": "layers other than attention and MLP",
    "hybrid-layer-pattern": "layers other than attention and MLP",
    "mtp-num-layers": "layers for further tokens",
    "heterogeneous-layers-config-path": "layers that differ",
    "attention-output-gate": "a gate on attention's output",
}


def model_from_megatron(arguments: Sequence[str] | str, name: str = "model") -> Model:
    """Return the model that Megatron-LM would build with these arguments.

    Parameters
    ----------
    arguments
        An argument list (``["--num-layers", "32", …]``), or the text of a shell script or of a file
        of arguments. In a text, comments are left out and plain variables (``HIDDEN=4096``, then
        ``--hidden-size $HIDDEN``) replaced by their values; arguments that have nothing to do with
        the model are passed over. In a list the last of equal arguments counts, as in Megatron-LM;
        in a text they must agree, since it may branch.
    name
        What to call the model.

    Raises
    ------
    InputError
        If an argument is missing, wrong or not supported (all of them in one go).
    """
    if isinstance(arguments, str):
        flags = _Flags(_words(arguments), agree=True)
    elif isinstance(arguments, Sequence) and all(isinstance(word, str) for word in arguments):
        flags = _Flags([word.strip() for word in arguments], agree=False)
    else:
        raise InputError("arguments", "a list of texts, or a text", arguments)
    if not flags.values:
        raise InputError("arguments", "Megatron-LM arguments such as --num-layers 32", _start(arguments))
    given = _fields(flags)
    if flags.faults:
        raise flags.faults[0] if len(flags.faults) == 1 else InputErrors(flags.faults)
    return Model(name=name, **given)


def _start(arguments: object) -> object:
    return arguments if not isinstance(arguments, str) else arguments.strip()[:60]


def _words(text: str) -> list[str]:
    """Return the words of a shell script without comments, quotes and brackets."""
    bare = re.sub(r"(?m)(^|\s)#.*$", r"\1", text)
    bare = re.sub(r"=[\"']?(?=--)", "= ", bare)  # ARGS="--num-layers 32 …"
    return re.sub(r"[()\[\],;\\]", " ", re.sub(r"[\"']", "", bare)).split()


class _Flags:
    """The arguments by name, with what is wrong with them."""

    def __init__(self, words: Sequence[str], *, agree: bool) -> None:
        self.faults: list[InputError] = []
        self.values: dict[str, list[str]] = {}
        self.variables: dict[str, set[str]] = {}
        self.agree = agree
        name = ""
        for word in words:
            if re.match(r"--[A-Za-z]", word):
                name, _, value = word[2:].partition("=")
                name = name.replace("_", "-")
                self.values.setdefault(name, []).append(value)
            elif match := _ASSIGNMENT.fullmatch(word):
                self.variables.setdefault(match[1], set()).add(match[2])
                name = ""
            elif name and not self.values[name][-1]:
                self.values[name][-1] = word

    def fault(self, name: str, must: str, got: object, hint: str = "") -> None:
        """Remember that an argument is wrong, once."""
        fault = InputError(f"--{name}", must, got, hint)
        if str(fault) not in map(str, self.faults):
            self.faults.append(fault)

    def flag(self, name: str) -> bool:
        """Whether an argument without a value is there."""
        return name in self.values

    def text(self, name: str) -> str | None:
        """Return an argument's value with variables replaced; None if it is not there."""
        if name not in self.values:
            return None
        values = [self._plain(value) for value in self.values[name]]
        if self.agree and len(set(values)) > 1:
            self.fault(name, "given once, or the same everywhere", ", ".join(sorted(set(values))))
        return values[-1]

    def _plain(self, value: str) -> str:
        """Return `value`, or that of the variable it names, as far as there is exactly one."""
        for _ in range(10):  # a variable may be set to another; one set to itself ends here
            match = _VARIABLE.fullmatch(value)
            known = self.variables.get(match[1] or match[2], set()) if match else set()
            if len(known) != 1:
                break
            value = next(iter(known))
        return value

    def size(self, name: str, default: int | None = None) -> int:
        """Return a whole number; absent means `default`, or that it is missing if there is none."""
        value = self.text(name)
        if value is None and default is not None:
            return default
        if value is None:
            self.fault(name, "given", None)
        elif re.fullmatch(r"\d{1,18}", value) and 1 <= int(value) <= MOST:
            return int(value)
        else:
            hint = "Its variable has no single value in this file." if value.startswith("$") else ""
            self.fault(name, f"a whole number from 1 to {MOST:g}", value, hint)
        return 1

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return a text that is one of `choices`; absent means the first."""
        value = self.text(name)
        if value is not None and value not in choices:
            self.fault(name, f"one of {', '.join(choices)}", value)
        return choices[0] if value is None else value


def _fields(f: _Flags) -> dict[str, Any]:
    """Return the fields of the model."""
    for name, what in _UNSUPPORTED.items():
        if f.flag(name):
            f.fault(name, f"absent, as models with {what} are not supported", f.text(name) or "it")
    if f.flag("num-experts") and f.size("num-experts") > 1:
        f.fault("num-experts", "absent, as models with experts are not supported yet", f.text("num-experts"))
    layers = f.size(
        "num-layers" if f.flag("num-layers") or not f.flag("encoder-num-layers") else "encoder-num-layers"
    )
    d_model, heads = f.size("hidden-size"), f.size("num-attention-heads")
    gated = f.flag("swiglu") or f.flag("gated-linear-unit")
    if not f.flag("kv-channels") and d_model % heads and not f.faults:
        f.fault("num-attention-heads", f"a divisor of the width {d_model} without --kv-channels", heads)
    kv_heads = f.size("num-query-groups", default=1) if f.flag("group-query-attention") else heads
    biased = not f.flag("disable-bias-linear")
    normalization = f.choice("normalization", ("LayerNorm", "RMSNorm"))
    return {
        "layers": layers,
        "d_model": d_model,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": f.size("kv-channels", default=max(1, d_model // heads)),
        "d_ff": f.size("ffn-hidden-size", default=max(1, _width(d_model, f.flag("swiglu")))),
        "vocab": _vocabulary(f),
        "gated": gated,
        "tied": not f.flag("untie-embeddings-and-output-weights"),
        "norm_bias": normalization == "LayerNorm",
        "qk_norm": f.flag("qk-layernorm"),
        "qkv_bias": biased or f.flag("add-qkv-bias"),
        "out_bias": biased,
        "mlp_bias": biased,
        "positions": _positions(f),
        **_window(f, layers),
    }


def _width(d_model: int, gated: bool) -> int:
    """Return the width of the MLP where none is given."""
    return 8 * d_model // 3 // 64 * 64 if gated else 4 * d_model


def _positions(f: _Flags) -> int:
    """Return the rows of the table of positions."""
    kind = f.choice("position-embedding-type", _POSITIONS)
    rotary = f.flag("use-rotary-position-embeddings") or f.flag("no-position-embedding")  # before 2023-10
    return f.size("max-position-embeddings") if kind == _POSITIONS[0] and not rotary else 0


def _vocabulary(f: _Flags) -> int:
    """Return the rows of the embedding: tokens, padded."""
    tokens = f.size("vocab-size")
    if (f.text("tokenizer-type") or "").startswith("Null"):
        tokens += 1  # this tokenizer adds one that ends a document
    multiple = f.size("make-vocab-size-divisible-by", default=128)
    multiple *= f.size("tensor-model-parallel-size", default=1)
    return math.ceil(tokens / multiple) * multiple


def _window(f: _Flags, layers: int) -> dict[str, Any]:
    """Return the fields of the sliding window: ``--window-size`` is how far back, and ahead, it sees."""
    if not f.flag("window-size"):
        return {}
    value = f.text("window-size") or ""
    back = re.match(r"\(?\s*(\d{1,9})", value)
    if not back:
        f.fault("window-size", "a number of tokens, as in 128,0", value)
        return {}
    every = f.size("window-attn-skip-freq", default=0) if f.flag("window-attn-skip-freq") else 0
    window = int(back[1]) + 1
    return {"window": window, "window_layers": layers - layers // every if every else None}
