"""A transformer decoder as its published configuration gives it: exact parameters, FLOP, operators.

Every count is a whole number and exact: a model of the catalogue has, to the parameter, as many as
its published weights. What is counted where:

- *embedding*: the table of tokens, of learned positions, what projects a narrow table to the model's
  width, and a norm that follows them; all before the first block;
- *layer*: one block with its norms and biases;
- *head*: what follows the last block: the final norm, a projection to a narrow table, and the output
  matrix unless it is `tied`, that is shared with the embedding and counted there.
"""

from __future__ import annotations

from typing import Any

import attrs

from scalewall.errors import InputError, InputErrors
from scalewall.workload.operators import Attention, Linear, Operator, Pointwise

MOST = 10**9
"""No dimension is larger: far above anything that can be asked for in earnest."""


def _size(doc: str, *, least: int = 1, optional: bool = False, default: Any = attrs.NOTHING) -> Any:
    """Return a field of whole numbers from `least` to `MOST`."""
    metadata = {"unit": "1", "doc": doc, "least": least, "optional": optional}
    return attrs.field(default=default, metadata=metadata)


def _flag(doc: str, *, default: Any = attrs.NOTHING) -> Any:
    return attrs.field(default=default, metadata={"doc": doc, "flag": True})


def _text(doc: str, *, default: Any = attrs.NOTHING) -> Any:
    return attrs.field(default=default, metadata={"doc": doc, "text": True})


@attrs.frozen(kw_only=True)
class Model:
    """A dense transformer decoder.

    Sizes are in features (`d_model`, `d_ff`, `head_dim`) or tokens (`vocab`, `window`). Fields with
    a default describe what most models since 2023 have: root-mean-square norms, no biases.

    Raises
    ------
    InputError
        For every field that is wrong, all in one go (`InputErrors` if several).
    """

    name: str = _text("name in the catalogue")
    title: str = _text("what its authors call it", default="")
    source: str = _text("where its figures are published", default="")
    layers: int = _size("number of blocks")
    d_model: int = _size("width of the model")
    heads: int = _size("query heads")
    kv_heads: int = _size("heads of keys and values, which groups of query heads share")
    head_dim: int = _size("width of one head")
    d_ff: int = _size("width of the MLP's hidden layer")
    vocab: int = _size("rows of the embedding, padding included")
    gated: bool = _flag("whether the MLP is gated (three matrices, not two)")
    tied: bool = _flag("whether the output matrix is the embedding")
    parallel: bool = _flag("whether attention and MLP stand side by side", default=False)
    causal: bool = _flag("whether a token sees only those before it", default=True)
    window: int | None = _size("tokens that a windowed layer sees", optional=True, default=None)
    window_layers: int | None = _size(
        "how many of the layers have the window; all if absent", least=0, optional=True, default=None
    )
    norms: int = _size("norms with weights in a block, those of queries and keys aside", least=0, default=2)
    norm_bias: bool = _flag(
        "whether norms have a bias (layer norms do, root-mean-square ones not)", default=False
    )
    final_norm: bool = _flag("whether a norm follows the last block", default=True)
    embedding_norm: bool = _flag("whether a norm follows the embedding", default=False)
    qk_norm: bool = _flag("whether queries and keys have norms", default=False)
    qk_norm_whole: bool = _flag(
        "whether these norms span all heads with a weight for each feature, not one head", default=False
    )
    qkv_bias: bool = _flag("whether queries, keys and values have biases", default=False)
    out_bias: bool = _flag("whether the attention's output projection has a bias", default=False)
    mlp_bias: bool = _flag("whether the MLP's matrices have biases", default=False)
    head_bias: bool = _flag("whether the output matrix has a bias", default=False)
    positions: int = _size("rows of a table of learned positions", least=0, default=0)
    relative_positions: bool = _flag(
        "whether each block has a matrix for relative positions (Transformer-XL, arXiv 1901.02860)",
        default=False,
    )
    embedding_width: int | None = _size(
        "width of the embedding, if a projection takes it to the model's", optional=True, default=None
    )
    experts: int = _size("experts a block; more than one is not supported yet", default=1)
    published_parameters: int | None = _size("parameters that its authors state", optional=True, default=None)
    published_exact: bool = _flag("whether that is a count, not a rounded figure", default=False)

    def __attrs_post_init__(self) -> None:
        faults = [f for a in attrs.fields(Model) if (f := _fault(a.name, getattr(self, a.name), a.metadata))]
        faults = faults or self._conflicts()
        if faults:
            raise faults[0] if len(faults) == 1 else InputErrors(faults)

    def _conflicts(self) -> list[InputError]:
        """Return what is wrong with fields that are each right alone."""
        found = []
        if self.heads % self.kv_heads:
            found.append(InputError("kv_heads", f"a divisor of the {self.heads} heads", self.kv_heads))
        if self.experts > 1:
            must = "1, as models with experts are not supported yet"
            found.append(InputError("experts", must, self.experts))
        if self.window_layers is not None and self.window is None:
            found.append(InputError("window_layers", "absent without a window", self.window_layers))
        if self.window_layers is not None and self.window_layers > self.layers:
            must = f"at most the {self.layers} layers"
            found.append(InputError("window_layers", must, self.window_layers))
        if self.qk_norm_whole and not self.qk_norm:
            found.append(InputError("qk_norm_whole", "false without qk_norm", self.qk_norm_whole))
        return found

    # Widths

    @property
    def q_width(self) -> int:
        """Features of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Features of all heads of keys; those of values are as many."""
        return self.kv_heads * self.head_dim

    @property
    def table_width(self) -> int:
        """Features of a row of the embedding."""
        return self.d_model if self.embedding_width is None else self.embedding_width

    @property
    def windowed_layers(self) -> int:
        """How many of the layers have the window."""
        if self.window is None:
            return 0
        return self.layers if self.window_layers is None else self.window_layers

    # Parameters

    @property
    def layer_matmul_parameters(self) -> int:
        """Parameters of one block's matrices."""
        attention = 2 * self.d_model * (self.q_width + self.kv_width)
        return attention + (3 if self.gated else 2) * self.d_model * self.d_ff

    @property
    def layer_parameters(self) -> int:
        """Parameters of one block."""
        count = self.layer_matmul_parameters + self.norms * self._norm_parameters(self.d_model)
        if self.qkv_bias:
            count += self.q_width + 2 * self.kv_width
        if self.out_bias:
            count += self.d_model
        if self.mlp_bias:
            count += (2 if self.gated else 1) * self.d_ff + self.d_model
        if self.relative_positions:
            count += self.d_model * self.q_width
        if self.qk_norm and self.qk_norm_whole:
            count += self._norm_parameters(self.q_width) + self._norm_parameters(self.kv_width)
        elif self.qk_norm:
            count += 2 * self._norm_parameters(self.head_dim)
        return count

    @property
    def embedding_parameters(self) -> int:
        """Parameters before the first block."""
        count = self.vocab * self.table_width + self.positions * self.d_model + self._projection
        return count + (self._norm_parameters(self.table_width) if self.embedding_norm else 0)

    @property
    def head_parameters(self) -> int:
        """Parameters after the last block; a tied output matrix is counted with the embedding."""
        count = self._projection + (self.vocab if self.head_bias else 0)
        count += self._norm_parameters(self.d_model) if self.final_norm else 0
        return count if self.tied else count + self.vocab * self.table_width

    @property
    def parameters(self) -> int:
        """All parameters, a tied output matrix counted once."""
        return self.embedding_parameters + self.layers * self.layer_parameters + self.head_parameters

    @property
    def parameters_without_embedding(self) -> int:
        """Parameters without the tables of tokens and positions and without the output matrix."""
        tables = (1 if self.tied else 2) * self.vocab * self.table_width + self.positions * self.d_model
        return self.parameters - tables

    @property
    def matmul_parameters(self) -> int:
        """Parameters that every token is multiplied with: all matrices, the output's included.

        The look-up of the embedding multiplies nothing; a tied table still counts as the output's.
        A matrix for relative positions multiplies those, once for all sequences, and does not count.
        """
        head = self.vocab * self.table_width + 2 * self._projection
        return self.layers * self.layer_matmul_parameters + head

    @property
    def _projection(self) -> int:
        """Parameters of the matrix between a table of another width and the model."""
        return 0 if self.embedding_width is None else self.embedding_width * self.d_model

    def _norm_parameters(self, width: int) -> int:
        return (2 if self.norm_bias else 1) * width

    # Arithmetic

    def context(self, seq: int, *, windowed: bool = False, causal_half: bool = True) -> float:
        """Return how many tokens a token of a sequence of `seq` tokens attends to, on average.

        Parameters
        ----------
        seq
            Tokens a sequence.
        windowed
            Whether the layer has the model's window.
        causal_half
            Whether the tokens that a causal mask hides are left out. The mean is then that of a
            continuous sequence: ``seq/2``, or ``w − w²/(2·seq)`` with a window of ``w < seq``.
        """
        seen = seq if self.window is None or not windowed else min(seq, self.window)
        if not (self.causal and causal_half):
            return float(seen)
        return seen - seen * seen / (2 * seq)

    def training_flop(self, seq: int, *, causal_half: bool = True) -> float:
        """Return the model FLOP of training on one token: forward and backward, multiplications only.

        ``6 · matmul parameters + 12 · Σ over layers (q_width · context)``. Each parameter of a
        matrix costs 2 FLOP forward and 4 backward; so do scores and weighted sum, each 2 FLOP for
        every feature of the query and every token attended to. Norms, softmax, activations, the
        look-up of the embedding and the optimizer are left out, and recomputation never counts:
        this is the numerator of MFU, not of HFU.

        Parameters
        ----------
        seq
            Tokens a sequence.
        causal_half
            Whether a causal core counts only what its mask lets through, half of it for a long
            sequence. Conventions differ: reports after PaLM (arXiv 2204.02311, appendix B) and
            Megatron-LM's papers (arXiv 2104.04473) count all of it, the FlashAttention papers
            (arXiv 2307.08691) half. Compare published MFU under the convention of its authors.

        Raises
        ------
        InputError
            If `seq` is no whole number of at least 1.
        """
        fault = _fault("seq", seq, {"least": 1, "optional": False, "unit": "1"})
        if fault:
            raise fault
        contexts = [self.context(seq, windowed=w, causal_half=causal_half) for w in (False, True)]
        whole, windowed = self.layers - self.windowed_layers, self.windowed_layers
        core = 12 * self.q_width * (whole * contexts[0] + windowed * contexts[1])
        return 6 * self.matmul_parameters + core

    # Operators

    def blocks(self) -> tuple[tuple[int, tuple[Operator, ...]], ...]:
        """Return the kinds of block, each as how many layers are of it and its operators.

        There are two if some layers have a window and others not. Such layers alternate evenly, so
        that every pipeline stage has about the same mix.
        """
        counts = ((self.layers - self.windowed_layers, False), (self.windowed_layers, True))
        return tuple((count, self.operators(windowed=windowed)) for count, windowed in counts if count)

    def operators(self, *, windowed: bool | None = None) -> tuple[Operator, ...]:
        """Return the operators of one block, in the order of the forward pass.

        Matrices are split in one dimension over ``tp``: those that enter attention and MLP by their
        outputs, those that leave by their inputs (Megatron-LM, arXiv 1909.08053). Where attention and
        MLP stand side by side, the two that leave add up, and are one layer whose sum crosses the
        network once; the two that enter are one if they share a norm.

        Parameters
        ----------
        windowed
            Whether the block is one with a window; if None, it is one where all are.
        """
        if windowed is None:
            windowed = self.windowed_layers == self.layers
        d, qkv, up = self.d_model, self.q_width + 2 * self.kv_width, (2 if self.gated else 1) * self.d_ff
        core = Attention(
            self.heads, self.kv_heads, self.head_dim, self.causal, self.window if windowed else None
        )
        activation = Pointwise("activation", up, self.d_ff, split="tp")
        norm, add = Pointwise("norm", d, d, split=""), Pointwise("residual", 2 * d, d, split="")
        width = self.q_width + self.kv_width
        middle = (Pointwise("qk_norm", width, width, split="tp"), core) if self.qk_norm else (core,)
        last = (norm, add) if self.norms > 2 else (add,)  # a norm on what is added to the residual
        if not self.parallel:
            added = (norm, add) if self.norms > 3 else (add,)
            attention = (norm, Linear(qkv, d, "tp", ""), *middle, Linear(d, self.q_width, "", "tp"), *added)
            mlp = (norm, Linear(up, d, "tp", ""), activation, Linear(d, self.d_ff, "", "tp"), *last)
            return (*attention, *mlp)
        leaving = Linear(d, self.q_width + self.d_ff, "", "tp")
        if self.norms < 2:
            return (norm, Linear(qkv + up, d, "tp", ""), *middle, activation, leaving, *last)
        entering = (norm, Linear(qkv, d, "tp", ""), *middle, norm, Linear(up, d, "tp", ""), activation)
        return (*entering, leaving, *last)

    def head(self) -> Linear:
        """Return the output matrix: a row for each token of the vocabulary, split by rows."""
        return Linear(self.vocab, self.table_width, "tp", "")


def _fault(name: str, value: object, metadata: Any) -> InputError | None:
    """Return what is wrong with one field's value, or None."""
    if "text" in metadata:
        return None if isinstance(value, str) else InputError(name, "a text", value)
    if "flag" in metadata:
        return None if isinstance(value, bool) else InputError(name, "true or false", value)
    if value is None and metadata["optional"]:
        return None
    least = metadata["least"]
    most = 10**18 if name == "published_parameters" else MOST
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return None
    return InputError(name, f"a whole number from {least} to {most:g}", value)
