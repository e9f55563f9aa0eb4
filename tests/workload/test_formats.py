"""Models from other programs' files: what they say, and what is wrong with them in one line."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.errors import InputError, InputErrors
from scalewall.workload.formats import (
    MOST_BYTES,
    model_from_hf,
    model_from_megatron,
    model_names,
    read_model,
)
from scalewall.workload.huggingface import MODEL_TYPES
from scalewall.workload.model import Model

CONFIGS = Path(__file__).parents[1] / "data" / "configs"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.json"))

LLAMA = {
    **{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "vocab_size": 100},
}

LLAMA_2_70B = """
#!/bin/bash
# Llama 2 70B, by hand: --num-layers 1 is no argument
NUM_LAYERS=80; export HIDDEN="8192"
MODEL_ARGS=(
    --num-layers ${NUM_LAYERS} --hidden-size $HIDDEN \\
    --ffn-hidden-size=28672   # gated
    --num-attention-heads 64 --group-query-attention --num-query-groups 8
    --swiglu --normalization RMSNorm --disable-bias-linear
    --untie-embeddings-and-output-weights
    --position-embedding-type rope --max-position-embeddings 4096
    --vocab-size 32000 --make-vocab-size-divisible-by 1
)
torchrun --nproc_per_node 8 pretrain_gpt.py ${MODEL_ARGS[@]} --lr 1.5e-4 --bf16
"""

MT_NLG = ["--num-layers", "105", "--hidden-size", "20480", "--num-attention-heads", "128"]
MT_NLG += ["--seq-length", "2048", "--max-position-embeddings", "2048", "--vocab-size", "50257"]
MT_NLG += ["--tensor-model-parallel-size", "8", "--pipeline-model-parallel-size", "35", "--fp16"]


def config(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def shape(model: Model) -> dict[str, Any]:
    """Return a model's fields without what only the catalogue knows."""
    told = ("name", "title", "source", "published_parameters", "published_exact")
    return {key: value for key, value in attrs.asdict(model).items() if key not in told}


def refused(config: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        model_from_hf(config)
    if not isinstance(caught.value, InputErrors):
        assert "\n" not in str(caught.value)
    return caught.value


# Hugging Face


@pytest.mark.parametrize("name", NAMES)
def test_a_configuration_gives_the_model_of_the_catalogue(name):
    assert shape(model_from_hf(config(name), name)) == shape(read_model(name))


def test_every_supported_type_is_tried():
    tried = {config(name)["model_type"] for name in NAMES}
    assert set(MODEL_TYPES) - tried == {"gpt_bigcode", "granite", "olmo"}  # below


def test_what_llama_leaves_out():
    model = model_from_hf(LLAMA)
    assert (model.kv_heads, model.head_dim, model.tied) == (4, 16, False)
    assert not any((model.qkv_bias, model.out_bias, model.mlp_bias))
    assert shape(model_from_hf({**LLAMA, "num_key_value_heads": None, "head_dim": None})) == shape(model)
    biased = model_from_hf({**LLAMA, "attention_bias": True, "mlp_bias": True})
    assert biased.qkv_bias
    assert biased.out_bias
    assert biased.mlp_bias
    assert shape(model_from_hf({**LLAMA, "model_type": "granite"})) == shape(model)


def test_olmo_has_norms_without_weights():
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
    sizes |= {"num_attention_heads": 16, "vocab_size": 50304}
    model = model_from_hf({"model_type": "olmo", **sizes, "tie_word_embeddings": True})
    assert model.parameters == 16 * (4 * 2048**2 + 3 * 2048 * 8192) + 50304 * 2048


def test_the_first_starcoder_shares_one_head():
    # arXiv 2305.06161: 40 layers, 6144, 48 heads, 8192 positions, 49152 tokens: 15.5e9 parameters.
    sizes = {"n_embd": 6144, "n_head": 48, "n_inner": 24576, "n_layer": 40, "n_positions": 8192}
    model = model_from_hf({"model_type": "gpt_bigcode", "vocab_size": 49152, **sizes})
    assert model.kv_heads == 1
    assert model.parameters == pytest.approx(15.5e9, rel=0.01)
    assert (
        model_from_hf({"model_type": "gpt_bigcode", "vocab_size": 9, **sizes, "multi_query": False}).kv_heads
        == 48
    )


def test_windows_of_mistral():
    mistral = {**LLAMA, "model_type": "mistral"}
    assert model_from_hf(mistral).window == 4096  # the class's own
    assert model_from_hf({**mistral, "sliding_window": None}).window is None
    assert model_from_hf({**mistral, "sliding_window": 7}).window == 7
    mixed = {**mistral, "layer_types": ["full_attention", "sliding_attention"]}
    assert model_from_hf(mixed).windowed_layers == 1
    none = {**mistral, "layer_types": ["full_attention"] * 2}
    assert model_from_hf(none).window is None


def test_windows_of_qwen():
    qwen = {**LLAMA, "model_type": "qwen2", "num_hidden_layers": 40, "sliding_window": 9}
    assert model_from_hf(qwen).window is None
    used = model_from_hf({**qwen, "use_sliding_window": True, "max_window_layers": 30})
    assert (used.window, used.windowed_layers) == (9, 10)
    assert model_from_hf({**qwen, "use_sliding_window": True}).windowed_layers == 12  # from the 28th on
    assert model_from_hf({**qwen, "use_sliding_window": True, "max_window_layers": 99}).window is None


def test_windows_of_gemma():
    odd = {**config("gemma-2-9b"), "num_hidden_layers": 7}
    assert model_from_hf(odd).windowed_layers == 4
    kinds = ["sliding_attention"] * 5 + ["full_attention"] * 2
    assert model_from_hf({**odd, "layer_types": kinds}).windowed_layers == 5
    renamed = config("gemma-3-1b")
    renamed["_sliding_window_pattern"] = renamed.pop("sliding_window_pattern")
    assert model_from_hf(renamed).windowed_layers == 22
    renamed["_sliding_window_pattern"] = 2
    assert model_from_hf(renamed).windowed_layers == 13


def test_kinds_of_falcon():
    old = config("falcon-7b")
    rw = model_from_hf({**old, "multi_query": False, "parallel_attn": False, "bias": True})
    assert (rw.kv_heads, rw.parallel, rw.norms, rw.qkv_bias) == (71, False, 2, True)
    second = model_from_hf({**config("falcon-40b"), "num_ln_in_parallel_attn": 1})
    assert (second.kv_heads, second.norms) == (8, 1)
    named = {"n_layer": 32, "n_head": 71, "num_attention_heads": None, "num_hidden_layers": None}
    assert shape(model_from_hf({**old, **named})) == shape(read_model("falcon-7b"))


def test_kinds_of_opt_and_mpt():
    opt = config("opt-6.7b")
    assert model_from_hf({**opt, "_remove_final_layer_norm": True}).final_norm is False
    plain = model_from_hf({**opt, "enable_bias": False, "layer_norm_elementwise_affine": False})
    assert (plain.norms, plain.final_norm, plain.qkv_bias) == (0, False, False)
    mpt = config("mpt-7b")
    assert model_from_hf({**mpt, "attn_config": {"alibi": False}}).positions == 2048
    assert model_from_hf({**mpt, "attn_config": {"alibi": True, "qk_ln": True}}).qk_norm_whole


@pytest.mark.parametrize(
    "kind", ["mixtral", "qwen3_moe", "deepseek_v3", "dbrx", "gpt_oss", "llama4", "granitemoe", "jamba"]
)
def test_experts_are_refused_by_name(kind):
    error = refused({**LLAMA, "model_type": kind})
    assert error.field == "model_type"
    assert error.got == kind
    assert "experts are not supported yet" in str(error)
    assert "Supported: bloom, falcon, gemma" in str(error)


@pytest.mark.parametrize("kind", ["bert", "t5", "mamba", "Llama", "", None, 5, ["llama"]])
def test_another_type_is_refused(kind):
    error = refused({**LLAMA, "model_type": kind})
    assert error.field == "model_type"
    assert "llama" in error.hint
    assert "experts" not in str(error)


@pytest.mark.parametrize("key", ["num_experts", "num_local_experts", "n_routed_experts", "n_shared_experts"])
def test_experts_in_a_dense_type_are_refused(key):
    for count in (8, 8.0, "8"):
        assert refused({**LLAMA, key: count}).field == key
    for count in (1, 0, None):
        assert model_from_hf({**LLAMA, key: count})


@pytest.mark.parametrize("key", ["is_encoder_decoder", "add_cross_attention"])
def test_an_encoder_is_refused(key):
    assert refused({**LLAMA, key: True}).field == key
    assert model_from_hf({**LLAMA, key: False})


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_size_is_named(name):
    whole = config(name)
    inner = whole.get("text_config", whole)
    # Sizes that the format defines when they are left out.
    defined = {"num_key_value_heads", "num_kv_heads", "head_dim", "sliding_window", "sliding_window_pattern"}
    defined |= {
        "max_window_layers",
        "word_embed_proj_dim",
        "n_inner",
        "n_ctx",
        "rotary_dim",
        "expansion_ratio",
    }
    defined |= {"partial_rotary_factor", "rotary_pct", "rope_theta", "query_pre_attn_scalar"}
    defined |= {"mm_tokens_per_image"}
    if "max_position_embeddings" in inner and whole["model_type"] != "opt":
        defined.add("max_position_embeddings")
    if whole["model_type"] in ("mpt", "gptj"):
        defined |= {"max_seq_len", "n_positions"}
    if whole["model_type"] == "gemma3":
        return  # its class defines all of them
    sizes = [key for key, value in inner.items() if isinstance(value, int) and not isinstance(value, bool)]
    for key in [key for key in sizes if key not in defined]:
        left = {k: v for k, v in whole.items() if k != key}
        if key == "n_positions":
            left.pop("n_ctx", None)
        error = refused(left)
        found = [fault.field for fault in getattr(error, "errors", [error])]
        aliases = {"n_embed": "hidden_size", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}
        assert key in found or aliases.get(key) in found
        assert error.got is None


WRONG_SIZES = [0, -1, 1.5, 32.0, "32", True, [], {}, float("nan"), float("inf"), 10**12, 10**400]


@pytest.mark.parametrize("value", WRONG_SIZES, ids=lambda value: str(value)[:8])
@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
def test_a_wrong_size_is_refused(key, value):
    error = refused({**LLAMA, key: value})
    assert error.field == key
    assert "must be a whole number from 1" in str(error)


def test_wrong_sizes_come_in_one_go():
    error = refused({"model_type": "llama", "hidden_size": "64", "vocab_size": 100})
    assert isinstance(error, InputErrors)
    fields = {fault.field for fault in error.errors}
    assert fields == {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings"),
        ({"attention_bias": 1}, "attention_bias"),
        ({"num_key_value_heads": 3}, "kv_heads"),
        ({"hidden_size": 66}, "num_attention_heads"),
        ({"head_dim": -1}, "head_dim"),
        ({"model_type": "mistral", "layer_types": ["full_attention"]}, "layer_types"),
        ({"model_type": "mistral", "layer_types": ["linear_attention", "full_attention"]}, "layer_types"),
        ({"model_type": "mistral", "layer_types": "full"}, "layer_types"),
        ({"model_type": "mistral", "sliding_window": 0}, "sliding_window"),
        ({"model_type": "gemma3"}, "text_config"),
        ({"model_type": "gemma3", "text_config": []}, "text_config"),
        ({"model_type": "gemma3", "text_config": {"vocab_size": 0}}, "text_config.vocab_size"),
    ],
)
def test_a_wrong_field(changes, field):
    assert refused({**LLAMA, **changes}).field == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"attn_config": [1]}, "attn_config"),
        ({"attn_config": {"attn_type": "multiquery_attention"}}, "attn_config.attn_type"),
        ({"attn_config": {"alibi": "yes"}}, "attn_config.alibi"),
        ({"expansion_ratio": "4"}, "expansion_ratio"),
    ],
)
def test_a_wrong_field_of_mpt(changes, field):
    assert refused({**config("mpt-7b"), **changes}).field == field


@pytest.mark.parametrize("value", [[], [1], "text", 5, None, 1.5])
def test_a_configuration_is_an_object(value):
    assert refused(value).field == "config.json"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(NAMES), st.data())
def test_any_spoiled_configuration_is_a_model_or_an_input_error(name, data):
    whole = config(name)
    key = data.draw(st.sampled_from(sorted(whole)))
    whole[key] = data.draw(anything)
    with contextlib.suppress(InputError):
        assert model_from_hf(whole).parameters > 0


# Megatron-LM


def test_a_script_gives_llama_2():
    assert shape(model_from_megatron(LLAMA_2_70B)) == shape(read_model("llama-2-70b"))


def test_a_list_gives_mt_nlg():
    assert shape(model_from_megatron(MT_NLG)) == shape(read_model("mt-nlg-530b"))
    joined = [f"{name}={value}" for name, value in zip(MT_NLG[:-1:2], MT_NLG[1::2], strict=True)]
    assert shape(model_from_megatron(joined)) == shape(read_model("mt-nlg-530b"))


def test_a_quoted_list_of_arguments():
    text = 'GPT_ARGS="--num-layers 2 \\\n --hidden-size 64 \\\n --num-attention-heads 4"\nV=7\n'
    text += "python pretrain_gpt.py $GPT_ARGS --max-position-embeddings '128' --vocab-size $V"
    model = model_from_megatron(text)
    assert (model.layers, model.d_model, model.positions, model.vocab) == (2, 64, 128, 128)


def megatron(*more: str) -> Model:
    base = ["--num-layers", "4", "--hidden-size", "96", "--num-attention-heads", "6"]
    return model_from_megatron([*base, "--vocab-size", "1000", "--max-position-embeddings", "64", *more])


def test_what_megatron_leaves_out():
    model = megatron()
    assert (model.d_ff, model.kv_heads, model.head_dim, model.vocab) == (384, 6, 16, 1024)
    assert (model.positions, model.tied, model.gated) == (64, True, False)
    assert model.norm_bias
    assert model.qkv_bias
    assert model.out_bias
    assert model.mlp_bias
    assert megatron("--swiglu").d_ff == 256  # 8/3 of the width in multiples of 64
    assert megatron("--group-query-attention").kv_heads == 1
    assert megatron("--num-query-groups", "2").kv_heads == 6  # has no effect without the other


@pytest.mark.parametrize(
    ("more", "field", "value"),
    [
        (["--kv-channels", "32"], "head_dim", 32),
        (["--group-query-attention", "--num-query-groups", "3"], "kv_heads", 3),
        (["--disable-bias-linear", "--add-qkv-bias"], "qkv_bias", True),
        (["--disable-bias-linear"], "qkv_bias", False),
        (["--qk-layernorm"], "qk_norm", True),
        (["--position-embedding-type", "rope"], "positions", 0),
        (["--use-rotary-position-embeddings"], "positions", 0),
        (["--tensor-model-parallel-size", "3"], "vocab", 1152),
        (["--make-vocab-size-divisible-by", "1"], "vocab", 1000),
        (["--tokenizer-type", "NullTokenizer", "--vocab-size", "1024"], "vocab", 1152),
        (["--window-size", "127,0"], "window", 128),
        (["--window-size", "(127, 0)", "--window-attn-skip-freq", "2"], "window_layers", 2),
        (["--num-experts", "1"], "experts", 1),
        (["--num-layers", "5"], "layers", 5),  # the last counts
        (["--num_layers", "5"], "layers", 5),
    ],
)
def test_an_argument_of_megatron(more, field, value):
    assert getattr(megatron(*more), field) == value


@pytest.mark.parametrize(
    ("more", "field"),
    [
        (["--num-experts", "8"], "--num-experts"),
        (["--multi-latent-attention"], "--multi-latent-attention"),
        (["--mtp-num-layers", "1"], "--mtp-num-layers"),
        (["--hybrid-override-pattern", "M*-"], "--hybrid-override-pattern"),
        (["--num-layers", "many"], "--num-layers"),
        (["--num-layers", "-4"], "--num-layers"),
        (["--num-layers", "0"], "--num-layers"),
        (["--num-layers", "1e3"], "--num-layers"),
        (["--num-layers", "9" * 5000], "--num-layers"),
        (["--num-layers", "$UNKNOWN"], "--num-layers"),
        (["--num-layers"], "--num-layers"),
        (["--hidden-size", "97"], "--num-attention-heads"),
        (["--normalization", "GroupNorm"], "--normalization"),
        (["--position-embedding-type", "alibi"], "--position-embedding-type"),
        (["--window-size", "all"], "--window-size"),
        (["--group-query-attention", "--num-query-groups", "4"], "kv_heads"),
    ],
)
def test_a_wrong_argument_of_megatron(more, field):
    with pytest.raises(InputError) as caught:
        megatron(*more)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_missing_arguments_of_megatron_come_in_one_go():
    with pytest.raises(InputErrors) as caught:
        model_from_megatron(["--num-layers", "2"])
    found = [fault.field for fault in caught.value.errors]
    assert found == ["--hidden-size", "--num-attention-heads", "--vocab-size", "--max-position-embeddings"]


@pytest.mark.parametrize(
    "text",
    [
        LLAMA_2_70B + "\nif big; then NUM_LAYERS=96; fi\n",
        LLAMA_2_70B.replace("NUM_LAYERS=80", "NUM_LAYERS=$((40 + 40))"),
        LLAMA_2_70B.replace("NUM_LAYERS=80", "NUM_LAYERS=${1:-80}"),
        LLAMA_2_70B.replace("NUM_LAYERS=80", "NUM_LAYERS=${NUM_LAYERS}"),
        LLAMA_2_70B + "\n--num-layers 96\n",
    ],
    ids=["branch", "sum", "default", "itself", "twice"],
)
def test_a_script_that_may_mean_two_things_is_refused(text):
    with pytest.raises(InputError) as caught:
        model_from_megatron(text)
    assert caught.value.field == "--num-layers"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value", ["", "   ", "no arguments at all", [], ["x"], [1], None, 5, {"a": 1}, b"--x"]
)
def test_no_arguments(value):
    with pytest.raises(InputError) as caught:
        model_from_megatron(value)
    assert caught.value.field == "arguments"
    assert "\n" not in str(caught.value)


@given(st.text(max_size=80) | st.lists(st.text(max_size=20), max_size=6))
def test_any_text_is_a_model_or_an_input_error(text):
    with pytest.raises(InputError):
        model_from_megatron(text)


@given(st.lists(st.sampled_from([*MT_NLG, *LLAMA_2_70B.split(), "--", "--x", "$", "${", "$A", "A=$A", "="])))
def test_any_shuffled_arguments_are_a_model_or_an_input_error(words):
    for arguments in (words, " ".join(words)):
        with contextlib.suppress(InputError):
            assert model_from_megatron(arguments).parameters > 0


# By name or path


@pytest.mark.parametrize("name", NAMES)
def test_a_path_of_a_configuration(name):
    model = read_model(CONFIGS / f"{name}.json")
    assert model.name == name
    assert shape(model) == shape(read_model(name))


def test_a_configuration_is_named_after_its_folder(tmp_path):
    folder = tmp_path / "My-Model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8-sig")  # as Windows writes it
    assert read_model(folder / "config.json").name == "My-Model"


def test_a_path_of_arguments(tmp_path):
    for suffix in (".sh", ".txt"):
        path = tmp_path / f"llama{suffix}"
        path.write_text(LLAMA_2_70B, encoding="utf-8")
        assert shape(read_model(path)) == shape(read_model("llama-2-70b"))
        assert read_model(path).name == "llama"


def toml(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


WHOLE = """
layers = 2
d_model = 64
heads = 4
kv_heads = 2
head_dim = 16
d_ff = 128
vocab = 100
gated = true
tied = false
"""


def test_a_file_of_ones_own(tmp_path):
    model = read_model(toml(tmp_path, WHOLE))
    assert (model.name, model.layers, model.kv_heads, model.published_parameters) == ("mine", 2, 2, None)
    assert read_model(toml(tmp_path, WHOLE + 'name = "other"\n')).name == "other"


def test_a_file_with_a_base(tmp_path):
    model = read_model(toml(tmp_path, 'base = "llama-3-8b"\nlayers = 4\n'))
    ground = read_model("llama-3-8b")
    assert shape(model) == {**shape(ground), "layers": 4}
    # What its authors state of the base is not so of this one.
    assert (model.name, model.title, model.published_parameters) == ("mine", "", None)
    toml(tmp_path, 'base = "mine.toml"\nd_ff = 8\n', "second.toml")
    assert shape(read_model(tmp_path / "second.toml")) == {**shape(ground), "layers": 4, "d_ff": 8}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("layers = ", "file"),
        ("layers = 2", "d_model"),
        (WHOLE.replace("layers", "depth"), "layers"),
        (WHOLE.replace("= 2\nd_model", "= 2.5\nd_model"), "layers"),
        (WHOLE.replace("= 2\nd_model", "= nan\nd_model"), "layers"),
        (WHOLE.replace("= 2\nd_model", "= true\nd_model"), "layers"),
        (WHOLE.replace("= 2\nd_model", f"= 0x{'f' * 6000}\nd_model"), "file"),
        (WHOLE.replace("= 2\nd_model", "= 10000000000000\nd_model"), "layers"),
        (WHOLE.replace("gated = true", "gated = 1"), "gated"),
        (WHOLE + "experts = 8\n", "experts"),
        (WHOLE + "published_parameters = -1\n", "published_parameters"),
        ("base = 5", "base"),
        ('base = "llama-9"', "base"),
        ('base = "mine.toml"', "base"),
        ('base = "absent.toml"', "model"),
        ("[model]\nlayers = 2", "layers"),
    ],
)
def test_a_wrong_file_of_ones_own(tmp_path, text, field):
    with pytest.raises(InputError) as caught:
        read_model(toml(tmp_path, text))
    assert field in [fault.field for fault in getattr(caught.value, "errors", [caught.value])]
    assert all("\n" not in str(fault) for fault in getattr(caught.value, "errors", [caught.value]))


def test_a_misspelt_field_has_its_nearest(tmp_path):
    with pytest.raises(InputError, match="Nearest: kv_heads"):
        read_model(toml(tmp_path, WHOLE + "kv_head = 2\n"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("llama-3-8", "llama-3-8b"), ("LLAMA-3-8B", "llama-3-8b"), ("gpt3", "gpt3-"), ("qwen3-4", "qwen3-4b")],
)
def test_an_unknown_name_has_its_nearest(name, hint):
    with pytest.raises(InputError) as caught:
        read_model(name)
    assert caught.value.field == "model"
    assert hint in caught.value.hint


HOSTILE = {
    "not-json.json": b"hidden_size = 64",
    "empty.json": b"",
    "cut.json": b'{"model_type": "llama", ',
    "list.json": b"[1, 2, 3]",
    "number.json": b"12",
    "null.json": b"null",
    "binary.json": bytes(range(256)),
    "zeros.json": b"\0" * 100,
    "deep.json": b"[" * 100_000,
    "digits.json": b'{"hidden_size": ' + b"9" * 5000 + b"}",
    "nan.json": json.dumps({**LLAMA, "hidden_size": float("nan")}).encode(),
    "infinite.json": json.dumps({**LLAMA, "hidden_size": 1e999}).encode(),
    "binary.toml": bytes(range(256)),
    "binary.sh": bytes(range(256)),
    "empty.txt": b"",
    "deep.toml": b"a = " + b"[" * 100_000,
    "large.json": b" " * (MOST_BYTES + 1),
    "large.sh": b" " * (MOST_BYTES + 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_line(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    with pytest.raises(InputError) as caught:
        read_model(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    "name", ["", ".", "/", "absent", "absent.json", "absent.toml", "a\0b.json", "x" * 5000]
)
def test_no_such_model(name):
    with pytest.raises(InputError) as caught:
        read_model(name)
    assert caught.value.field == "model"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["folder", "folder.json", "folder.toml", "folder.sh"])
def test_a_folder_is_no_model(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(InputError) as caught:
        read_model(tmp_path / name)
    assert caught.value.field == "model"
    assert caught.value.hint in ("Name its config.json.", "It is a folder.")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match="readable"):
        read_model(tmp_path / "pipe.json")


@pytest.mark.parametrize("value", [None, 5, b"llama-3-8b", ["llama-3-8b"]])
def test_what_is_no_name(value):
    with pytest.raises(InputError):
        read_model(value)


def test_a_name_comes_before_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    toml(tmp_path, WHOLE, "gpt2")
    assert read_model("gpt2").layers == 12


def test_all_names_are_read_once():
    assert all(read_model(name) is read_model(name) for name in model_names())
