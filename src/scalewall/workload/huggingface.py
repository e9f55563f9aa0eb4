"""Hugging Face ``config.json`` to a model.

What a format leaves out it defines: each class of configuration has defaults (an absent
``n_inner`` of GPT-2 means four times the width). Those are facts of the format and used here, as the
classes of the ``transformers`` library give them; sizes that a file has to state are never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scalewall.errors import InputError, InputErrors
from scalewall.workload.model import MOST, Model

_EXPERT_WORDS = ("moe", "mixtral", "deepseek", "dbrx", "jamba", "gpt_oss", "grok", "llama4")


def model_from_hf(config: Mapping[str, Any], name: str = "model") -> Model:
    """Return the model that a Hugging Face configuration describes.

    Parameters
    ----------
    config
        The object in ``config.json``.
    name
        What to call the model.

    Raises
    ------
    InputError
        If `config` is no object, its ``model_type`` is not supported, a field is missing or wrong
        (all of them in one go), or the fields do not make a model.
    """
    if not isinstance(config, Mapping):
        raise InputError("config.json", "a JSON object", config)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in _READERS:
        experts = isinstance(kind, str) and any(word in kind.lower() for word in _EXPERT_WORDS)
        hint = "Models with experts are not supported yet. " if experts else ""
        hint += f"Supported: {', '.join(MODEL_TYPES)}."
        raise InputError("model_type", "that of a supported dense decoder", kind, hint)
    fields = _Fields(config)
    fields.forbid()
    given = _READERS[kind](fields)
    fields.finish()
    return Model(name=name, **given)


class _Fields:
    """Reads the fields of a configuration, and remembers all that is wrong with them."""

    def __init__(self, config: Mapping[str, Any], path: str = "") -> None:
        self.config, self.path = config, path
        self.faults: list[InputError] = []

    def fault(self, key: str, must: str, got: object, hint: str = "") -> None:
        """Remember that a field is wrong."""
        self.faults.append(InputError(f"{self.path}{key}", must, got, hint))

    def finish(self) -> None:
        """Raise what was found to be wrong, if anything was."""
        if self.faults:
            raise self.faults[0] if len(self.faults) == 1 else InputErrors(self.faults)

    def value(self, *keys: str) -> tuple[str, Any]:
        """Return the first of `keys` that is there and not null, with its value; else the first with None."""
        found = next((key for key in keys if self.config.get(key) is not None), keys[0])
        return found, self.config.get(found)

    def size(self, *keys: str, default: int | None = None) -> int:
        """Return a whole number; absent or null means `default`, or that it is missing if there is none."""
        key, value = self.value(*keys)
        if value is None and default is not None:
            return default
        if value is None:
            self.fault(key, "given", None)
        elif isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST:
            return value
        else:
            self.fault(key, f"a whole number from 1 to {MOST:g}", value)
        return 1

    def window(self, default: int | None) -> int | None:
        """Return the sliding window; absent means `default`, null that there is none."""
        if "sliding_window" in self.config and self.config["sliding_window"] is None:
            return None
        return self.size("sliding_window", default=default) if self.has("sliding_window") else default

    def has(self, key: str) -> bool:
        """Whether a field is there and not null."""
        return self.config.get(key) is not None

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false; absent or null means `default`."""
        value = self.config.get(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.fault(key, "true or false", value)
        return default

    def head_dim(self, d_model: int, heads: int) -> int:
        """Return the width of a head: as given, or else the width over the heads."""
        if self.has("head_dim"):
            return self.size("head_dim")
        if d_model % heads and not self.faults:
            self.fault("num_attention_heads", f"a divisor of the width {d_model} without a head_dim", heads)
        return max(1, d_model // heads)

    def windowed(self, layers: int, otherwise: int) -> int:
        """Return how many layers have the window: by ``layer_types``, or else `otherwise`."""
        kinds = self.config.get("layer_types")
        if kinds is None:
            return otherwise
        known = ("sliding_attention", "full_attention")
        if not isinstance(kinds, list) or len(kinds) != layers or any(k not in known for k in kinds):
            self.fault("layer_types", f"a list of {layers} of {' and '.join(known)}", kinds)
            return 0
        return kinds.count("sliding_attention")

    def forbid(self) -> None:
        """Find what makes of a supported type something else: experts, an encoder."""
        for key, value in self.config.items():
            if "expert" in key and value not in (None, False, 0, 1):
                self.fault(key, "absent or 1, as models with experts are not supported yet", value)
        for key in ("is_encoder_decoder", "add_cross_attention"):
            if self.config.get(key) is True:
                self.fault(key, "absent or false, as only decoders are supported", True)


def _windows(window: int | None, layers: int, windowed: int) -> dict[str, Any]:
    """Return the fields of a model of which `windowed` layers have the `window`."""
    if window is None or windowed == 0:
        return {}
    return {"window": window, "window_layers": None if windowed == layers else windowed}


def _llama(f: _Fields, *, tied: bool = False, head_dim: int | None = None) -> dict[str, Any]:
    """Llama, and the ground of all that follow it: gated MLP, root-mean-square norms, biases by two flags."""
    d_model, heads = f.size("hidden_size"), f.size("num_attention_heads")
    bias = f.flag("attention_bias", False)
    return {
        "layers": f.size("num_hidden_layers"),
        "d_model": d_model,
        "heads": heads,
        "kv_heads": f.size("num_key_value_heads", default=heads),
        "head_dim": head_dim if head_dim and not f.has("head_dim") else f.head_dim(d_model, heads),
        "d_ff": f.size("intermediate_size"),
        "vocab": f.size("vocab_size"),
        "gated": True,
        "tied": f.flag("tie_word_embeddings", tied),
        "qkv_bias": bias,
        "out_bias": bias,
        "mlp_bias": f.flag("mlp_bias", False),
    }


def _mistral(f: _Fields) -> dict[str, Any]:
    fields = _llama(f)
    window = f.window(4096)  # of MistralConfig; files without a window say null
    return {**fields, **_windows(window, fields["layers"], f.windowed(fields["layers"], fields["layers"]))}


def _phi3(f: _Fields) -> dict[str, Any]:
    fields = _llama(f)
    return {**fields, **_windows(f.window(None), fields["layers"], fields["layers"])}


def _qwen2(f: _Fields, *, biased: bool = True, head_dim: int | None = None) -> dict[str, Any]:
    fields = _llama(f, head_dim=head_dim)
    if biased:  # always of queries, keys and values, and of them only
        fields |= {"qkv_bias": True, "out_bias": False}
    if f.flag("use_sliding_window", False):
        layers = fields["layers"]
        full = f.size("max_window_layers", default=28)  # the first so many have no window
        windowed = f.windowed(layers, max(0, layers - full))
        fields |= _windows(f.window(4096), layers, windowed)
    return fields


def _qwen3(f: _Fields) -> dict[str, Any]:
    return {**_qwen2(f, biased=False, head_dim=128), "qk_norm": True}  # 128: Qwen3Config


def _gemma(f: _Fields) -> dict[str, Any]:
    return _llama(f, tied=True, head_dim=256)  # GemmaConfig, as in the two that follow


def _gemma2(f: _Fields) -> dict[str, Any]:
    fields = _gemma(f)
    layers = fields["layers"]
    windowed = f.windowed(layers, (layers + 1) // 2)  # the first, the third and so on
    return {**fields, "norms": 4, **_windows(f.window(4096), layers, windowed)}


def _gemma3_text(f: _Fields) -> dict[str, Any]:
    fields = _gemma(f)
    layers = fields["layers"]
    # Every sixth has no window. The field's name got an underscore in 2025.
    every = f.size("sliding_window_pattern", "_sliding_window_pattern", default=6)
    windowed = f.windowed(layers, layers - layers // every)
    return {**fields, "norms": 4, "qk_norm": True, **_windows(f.window(4096), layers, windowed)}


def _gemma3(f: _Fields) -> dict[str, Any]:
    """Gemma 3 with a vision tower, of which the text model is read.

    A configuration inside another leaves out what is as in its class: Gemma3TextConfig.
    """
    text = f.config.get("text_config")
    if not isinstance(text, Mapping):
        f.fault("text_config", "a JSON object", text)
        f.finish()
        text = {}
    defaults = {"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216}
    defaults |= {"num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4}
    inner = _Fields({**defaults, **text}, "text_config.")
    fields = _gemma3_text(inner)
    f.faults += inner.faults
    return fields


def _olmo2(f: _Fields) -> dict[str, Any]:
    return {**_llama(f), "qk_norm": True, "qk_norm_whole": True}


def _olmo(f: _Fields) -> dict[str, Any]:
    return {**_llama(f), "norms": 0, "final_norm": False}  # its norms have no weights


def _nemotron(f: _Fields) -> dict[str, Any]:
    return {**_llama(f), "gated": False, "norm_bias": True}


def _layer_norms(biased: bool = True) -> dict[str, Any]:
    """Return the fields of a block with layer norms, a plain MLP and biases everywhere or nowhere."""
    biases = dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias"), biased)
    return {"gated": False, "norm_bias": True, **biases}


def _phi(f: _Fields) -> dict[str, Any]:
    one_norm = {"parallel": True, "norms": 1, "head_bias": True}
    return {**_llama(f), **_layer_norms(), **one_norm, "qk_norm": f.flag("qk_layernorm", False)}


def _starcoder2(f: _Fields) -> dict[str, Any]:
    fields = {**_llama(f, tied=True), **_layer_norms(f.flag("use_bias", True))}
    return {**fields, **_windows(f.window(None), fields["layers"], fields["layers"])}


def _gpt_neox(f: _Fields) -> dict[str, Any]:
    biased = f.flag("attention_bias", True)
    biases = {"qkv_bias": biased, "out_bias": biased}
    parallel = f.flag("use_parallel_residual", True)
    return {**_llama(f), **_layer_norms(), **biases, "parallel": parallel}


def _gpt2_sizes(f: _Fields) -> dict[str, Any]:
    """GPT-2's names of the sizes, which GPT-J and the first StarCoder keep."""
    d_model, heads = f.size("n_embd", "hidden_size"), f.size("n_head", "num_attention_heads")
    return {
        "layers": f.size("n_layer", "num_hidden_layers"),
        "d_model": d_model,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": f.head_dim(d_model, heads),
        "d_ff": f.size("n_inner", default=4 * d_model),
        "vocab": f.size("vocab_size"),
    }


def _gpt2(f: _Fields) -> dict[str, Any]:
    tied = f.flag("tie_word_embeddings", True)
    positions = f.size("n_positions", "max_position_embeddings", "n_ctx")
    return {**_gpt2_sizes(f), **_layer_norms(), "tied": tied, "positions": positions}


def _gpt_bigcode(f: _Fields) -> dict[str, Any]:
    fields = _gpt2(f)
    return {**fields, "kv_heads": 1} if f.flag("multi_query", True) else fields


def _gptj(f: _Fields) -> dict[str, Any]:
    biases = {**_layer_norms(), "qkv_bias": False, "out_bias": False, "head_bias": True}
    tied = f.flag("tie_word_embeddings", False)
    return {**_gpt2_sizes(f), **biases, "tied": tied, "parallel": True, "norms": 1}


def _bloom(f: _Fields) -> dict[str, Any]:
    d_model, heads = f.size("hidden_size", "n_embed"), f.size("n_head", "num_attention_heads")
    return {
        **_layer_norms(),
        "layers": f.size("n_layer", "num_hidden_layers"),
        "d_model": d_model,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": f.head_dim(d_model, heads),
        "d_ff": 4 * d_model,  # always
        "vocab": f.size("vocab_size"),
        "tied": f.flag("tie_word_embeddings", True),
        "embedding_norm": True,
    }


def _opt(f: _Fields) -> dict[str, Any]:
    d_model, heads = f.size("hidden_size"), f.size("num_attention_heads")
    width = f.size("word_embed_proj_dim", default=d_model)
    weighted = f.flag("layer_norm_elementwise_affine", True)
    removed = f.flag("_remove_final_layer_norm", False)
    return {
        **_layer_norms(f.flag("enable_bias", True)),
        "layers": f.size("num_hidden_layers"),
        "d_model": d_model,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": f.head_dim(d_model, heads),
        "d_ff": f.size("ffn_dim"),
        "vocab": f.size("vocab_size"),
        "tied": f.flag("tie_word_embeddings", True),
        "positions": f.size("max_position_embeddings") + 2,  # the first two are for padding
        "embedding_width": None if width == d_model else width,
        "norms": 2 if weighted else 0,
        "final_norm": weighted and f.flag("do_layer_norm_before", True) and not removed,
    }


def _falcon(f: _Fields) -> dict[str, Any]:
    d_model = f.size("hidden_size", "n_embed")
    heads = f.size("num_attention_heads", "n_head")
    new = f.flag("new_decoder_architecture", False)
    parallel = f.flag("parallel_attn", True) or new
    # Only the new architecture has groups of heads; the old one shares one head or none.
    kv_heads = f.size("num_kv_heads", "n_head_kv", default=heads) if new else heads
    if not new and f.flag("multi_query", True):
        kv_heads = 1
    norms = f.size("num_ln_in_parallel_attn", default=2 if new else 1) if parallel else 2
    return {
        **_layer_norms(f.flag("bias", False)),
        "layers": f.size("num_hidden_layers", "n_layer"),
        "d_model": d_model,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": f.head_dim(d_model, heads),
        "d_ff": f.size("ffn_hidden_size", default=4 * d_model),
        "vocab": f.size("vocab_size"),
        "tied": f.flag("tie_word_embeddings", True),
        "parallel": parallel,
        "norms": norms,
    }


def _mpt(f: _Fields) -> dict[str, Any]:
    d_model, heads = f.size("d_model"), f.size("n_heads")
    attention = f.config.get("attn_config") or {}
    if not isinstance(attention, Mapping):
        f.fault("attn_config", "a JSON object", attention)
        attention = {}
    inner = _Fields(attention, "attn_config.")
    if attention.get("attn_type", "multihead_attention") != "multihead_attention":
        inner.fault("attn_type", "multihead_attention, the one supported", attention["attn_type"])
    learned = f.flag("learned_pos_emb", True) and not inner.flag("alibi", True)
    qk_norm = inner.flag("qk_ln", False)
    f.faults += inner.faults
    biased = not f.flag("no_bias", True)
    return {
        **_layer_norms(biased),
        "layers": f.size("n_layers"),
        "d_model": d_model,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": f.head_dim(d_model, heads),
        "d_ff": f.size("expansion_ratio", default=4) * d_model,
        "vocab": f.size("vocab_size"),
        "tied": f.flag("tie_word_embeddings", True),
        "norm_bias": biased,
        "qk_norm": qk_norm,
        "qk_norm_whole": qk_norm,
        "positions": f.size("max_seq_len") if learned else 0,
    }


_READERS: dict[str, Callable[[_Fields], dict[str, Any]]] = {
    **{"bloom": _bloom, "falcon": _falcon, "gemma": _gemma, "gemma2": _gemma2, "gemma3": _gemma3},
    **{"gemma3_text": _gemma3_text, "gpt2": _gpt2, "gpt_bigcode": _gpt_bigcode, "gpt_neox": _gpt_neox},
    **{"gptj": _gptj, "granite": _llama, "llama": _llama, "mistral": _mistral, "mpt": _mpt},
    **{"nemotron": _nemotron, "olmo": _olmo, "olmo2": _olmo2, "opt": _opt, "phi": _phi, "phi3": _phi3},
    **{"qwen2": _qwen2, "qwen3": _qwen3, "starcoder2": _starcoder2},
}

MODEL_TYPES = tuple(sorted(_READERS))
"""The values of ``model_type`` that `model_from_hf` reads."""
