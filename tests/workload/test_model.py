"""Models: parameters to the last one, FLOP by hand and by their operators, and what is refused."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.errors import InputError, InputErrors
from scalewall.workload.formats import model_names, read_model
from scalewall.workload.model import MOST, Model
from scalewall.workload.operators import Attention, Linear, Pointwise

# Counted by others: "hub" is the safetensors metadata of the Hugging Face Hub, "keras" the presets of
# keras-team/keras-hub, "card" the model card, "loaded" a program's count of the weights it loaded.
PUBLISHED = [
    ("gpt2", 124_439_808, "keras"),
    ("gpt2-medium", 354_823_168, "keras"),
    ("gpt2-large", 774_030_080, "keras"),
    ("gpt2-xl", 1_557_611_200, "keras"),
    ("opt-125m", 125_239_296, "hub"),
    ("opt-350m", 331_196_416, "half the bytes of its 16-bit weights, 662392832"),
    ("opt-1.3b", 1_315_758_080, "half the bytes of its 16-bit weights, 2631516160"),
    ("opt-6.7b", 6_658_473_984, "loaded: 6666862592 with adapters of 8388608"),
    ("bloom-560m", 559_214_592, "hub"),
    ("bloom-176b", 176_247_271_424, "hub"),
    ("gpt-j-6b", 6_050_882_784, "loaded"),
    ("gpt-neox-20b", 20_554_567_680, "card"),
    ("falcon-7b", 7_217_189_760 - 65_024 * 4_544, "hub, which has the tied table twice"),
    ("falcon-40b", 41_835_970_560 - 65_024 * 8_192, "hub, which has the tied table twice"),
    ("falcon-180b", 179_522_565_120 - 65_024 * 14_848, "hub, which has the tied table twice"),
    ("llama-2-7b", 6_738_417_664 - 32 * 64, "hub, which has rotary tables"),
    ("llama-2-13b", 13_015_866_880 - 40 * 64, "hub, which has rotary tables"),
    ("llama-2-70b", 68_976_653_312 - 80 * 64, "hub, which has rotary tables"),
    ("llama-3-8b", 8_030_261_248, "hub"),
    ("llama-3-70b", 70_553_706_496, "hub"),
    ("llama-3.1-405b", 405_853_388_800, "hub"),
    ("llama-3.2-1b", 1_235_814_400, "hub"),
    ("llama-3.2-3b", 3_212_749_824, "hub"),
    ("yi-34b", 34_388_917_248, "hub"),
    ("mistral-7b", 7_241_732_096, "hub"),
    ("mistral-nemo-12b", 12_247_782_400, "hub"),
    ("qwen2.5-0.5b", 494_032_768, "hub"),
    ("qwen2.5-7b", 7_615_616_512, "hub"),
    ("qwen2.5-72b", 72_706_203_648, "hub"),
    ("qwen3-0.6b", 596_049_920, "keras"),
    ("qwen3-8b", 8_190_735_360, "hub"),
    ("qwen3-32b", 32_762_123_264, "hub"),
    ("gemma-2b", 2_506_172_416, "keras"),
    ("gemma-7b", 8_537_680_896, "keras"),
    ("gemma-2-9b", 9_241_705_984, "keras"),
    ("gemma-2-27b", 27_227_128_320, "keras"),
    ("gemma-3-1b", 999_885_952, "hub"),
    ("gemma-3-4b", 3_880_099_328 + 64 * 2_560, "keras, whose table has 64 rows fewer"),
    ("gemma-3-27b", 27_009_002_240 + 64 * 5_376, "keras, whose table has 64 rows fewer"),
    ("phi-2-2.7b", 2_779_683_840, "hub"),
    ("phi-3-mini-3.8b", 3_821_079_552, "hub"),
    ("phi-4-14b", 14_659_507_200, "hub"),
    ("olmo-2-7b", 7_298_617_344, "hub"),
    ("olmo-2-13b", 13_716_198_400, "hub"),
]

# Without tables of tokens and positions and the output, as papers state them.
WITHOUT_TABLES = [
    ("pythia-6.9b", 6_444_163_072, 0),  # arXiv 2304.01373, table 1
    ("pythia-12b", 11_327_027_200, 0),
    ("nemotron-4-340b", 331.6e9, 0.05e9),  # arXiv 2406.11704
    ("nemotron-4-15b", 12.5e9, 0.05e9),  # arXiv 2402.16819
    ("qwen2.5-7b", 6.53e9, 0.005e9),  # model cards
    ("qwen2.5-72b", 70.0e9, 0.3e9),
    ("qwen3-0.6b", 0.44e9, 0.005e9),
    ("gemma-2b", 1_981_884_416, 0),  # arXiv 2403.08295, table 2
    ("gemma-7b", 7_751_248_896, 0),
]

TINY = {
    **{"name": "tiny", "layers": 3, "d_model": 8, "heads": 4, "kv_heads": 2, "head_dim": 2},
    **{"d_ff": 16, "vocab": 32, "gated": True, "tied": False},
}


def tiny(**changes: Any) -> Model:
    return Model(**{**TINY, **changes})


small = st.integers(1, 6)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Return a model of any shape and kind, but small."""
    kv_heads, layers = draw(small), draw(small)
    window = draw(st.none() | st.integers(1, 64))
    flags = [a.name for a in attrs.fields(Model) if a.metadata.get("flag") and a.name != "qk_norm_whole"]
    kind: dict[str, Any] = {name: draw(st.booleans()) for name in flags}
    return Model(
        name="any",
        layers=layers,
        d_model=draw(small),
        heads=kv_heads * draw(small),
        kv_heads=kv_heads,
        head_dim=draw(small),
        d_ff=draw(small),
        vocab=draw(small),
        window=window,
        window_layers=None if window is None else draw(st.none() | st.integers(0, layers)),
        norms=draw(st.integers(0, 4)),
        positions=draw(st.integers(0, 6)),
        embedding_width=draw(st.none() | small),
        qk_norm_whole=kind["qk_norm"] and draw(st.booleans()),
        **kind,
    )


# Parameters


@pytest.mark.parametrize(("name", "count", "by"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_parameters_are_those_that_others_counted(name, count, by):
    assert read_model(name).parameters == count


@pytest.mark.parametrize(("name", "count", "within"), WITHOUT_TABLES)
def test_parameters_without_tables_are_those_that_papers_state(name, count, within):
    assert abs(read_model(name).parameters_without_embedding - count) <= within


def test_one_block_by_hand():
    block = tiny(qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True, qk_norm=True)
    matrices = 8 * (8 + 4 + 4) + 8 * 8 + 3 * 8 * 16
    biases = (8 + 4 + 4) + 8 + (16 + 16 + 8)
    norms = 2 * (8 + 8) + 2 * (2 + 2)
    assert block.layer_parameters == matrices + biases + norms
    assert block.layer_matmul_parameters == matrices
    assert tiny(qk_norm=True, qk_norm_whole=True).layer_parameters == matrices + 2 * 8 + (8 + 4)
    assert tiny(relative_positions=True).layer_parameters == matrices + 2 * 8 + 8 * 8
    assert tiny(gated=False).layer_parameters == matrices - 8 * 16 + 2 * 8


def test_the_parts_outside_the_blocks_by_hand():
    model = tiny(positions=5, embedding_width=4, embedding_norm=True, head_bias=True, norm_bias=True)
    assert model.embedding_parameters == 32 * 4 + 5 * 8 + 4 * 8 + 2 * 4
    assert model.head_parameters == 2 * 8 + 8 * 4 + 32 * 4 + 32
    tied = attrs.evolve(model, tied=True, final_norm=False)
    assert tied.head_parameters == 8 * 4 + 32


@given(models())
def test_the_parts_add_up(model):
    parts = model.embedding_parameters + model.layers * model.layer_parameters + model.head_parameters
    assert model.parameters == parts
    assert all(isinstance(n, int) and n >= 0 for n in (parts, model.matmul_parameters))
    assert 0 < model.parameters_without_embedding <= model.parameters
    assert model.q_width == model.heads * model.head_dim
    assert model.kv_width * (model.heads // model.kv_heads) == model.q_width


@given(models())
def test_a_tied_output_saves_one_table_and_no_multiplication(model):
    tied, own = attrs.evolve(model, tied=True), attrs.evolve(model, tied=False)
    assert own.parameters - tied.parameters == model.vocab * model.table_width
    assert own.matmul_parameters == tied.matmul_parameters
    assert own.parameters_without_embedding == tied.parameters_without_embedding


@given(models(), st.sampled_from(["layers", "d_model", "head_dim", "d_ff", "vocab"]))
def test_more_of_anything_is_more_parameters(model, name):
    assert attrs.evolve(model, **{name: getattr(model, name) + 1}).parameters > model.parameters


# Arithmetic


@given(models(), st.integers(1, 64))
def test_flop_are_those_of_the_operators(model, seq):
    """2 FLOP a weight and pass, three passes; attention twice as many a feature and token attended to."""
    flop = 6.0 * (model.head().out_features * model.head().in_features + 2 * model._projection)
    for count, operators in model.blocks():
        for operator in operators:
            if isinstance(operator, Linear):
                flop += 6.0 * count * operator.out_features * operator.in_features
            elif isinstance(operator, Attention):
                seen = model.context(seq, windowed=operator.window is not None)
                flop += 12.0 * count * operator.heads * operator.head_dim * seen
    assert model.training_flop(seq) == pytest.approx(flop, rel=1e-12)


def test_flop_of_gpt3_are_those_of_megatron():
    """arXiv 2104.04473: 96·B·s·l·h²·(1 + s/(6h) + V/(16·l·h)) with recomputation, that is with another
    forward pass of the blocks; without it three quarters in the blocks, and the same in the head."""
    model = read_model("megatron-145b")
    layers, h, s, vocab = model.layers, model.d_model, 2048, model.vocab
    expected = 72 * layers * h**2 * (1 + s / (6 * h)) + 6 * h * vocab
    assert model.training_flop(s, causal_half=False) == pytest.approx(expected, rel=1e-12)


def test_flop_of_palm_are_those_of_its_appendix():
    """arXiv 2204.02311, appendix B: 6N + 12·L·H·Q·T; its N has norms too, which are 5e-6 of it."""
    model = read_model("palm-540b")
    expected = 6 * model.parameters + 12 * 118 * 48 * 256 * 2048
    assert model.training_flop(2048, causal_half=False) == pytest.approx(expected, rel=1e-5)


@given(models(), st.integers(1, 10**6))
def test_a_mask_halves_attention(model, seq):
    whole = attrs.evolve(model, causal=True, window=None, window_layers=None)
    full, half = (whole.training_flop(seq, causal_half=h) for h in (False, True))
    core = 12 * model.layers * model.q_width * seq
    assert full - half == pytest.approx(core / 2)
    assert attrs.evolve(whole, causal=False).training_flop(seq) == pytest.approx(full)


@given(models(), st.integers(1, 128))
def test_a_window_never_adds_and_a_long_one_changes_nothing(model, seq):
    open_wide = attrs.evolve(model, window=None, window_layers=None)
    assert model.training_flop(seq) <= open_wide.training_flop(seq)
    long = attrs.evolve(model, window=seq)
    assert long.training_flop(seq) == pytest.approx(open_wide.training_flop(seq))


@given(st.integers(1, 64), st.integers(1, 64))
def test_context_is_the_mean_over_positions(seq, window):
    """Of a continuous sequence; the mean over tokens, each of which sees itself, is half a token more."""
    model = tiny(window=window)
    mean = sum(min(i, window) for i in range(1, seq + 1)) / seq
    assert 0.0 < mean - model.context(seq, windowed=True) <= 0.5
    assert model.context(seq, windowed=False) == seq / 2
    assert model.context(seq, windowed=True, causal_half=False) == min(seq, window)


@given(models())
def test_flop_a_token_grow_with_the_sequence(model):
    flop = [model.training_flop(seq) for seq in (1, 10, 100, 1000)]
    assert all(a <= b for a, b in pairwise(flop))
    assert flop[0] >= 6 * model.matmul_parameters


@pytest.mark.parametrize("seq", [0, -1, 1.5, True, "2048", None, math.nan, math.inf, 10**10])
def test_a_wrong_sequence(seq):
    with pytest.raises(InputError, match="'seq' must be a whole number from 1") as caught:
        tiny().training_flop(seq)
    assert "\n" not in str(caught.value)


# Operators


def test_the_block_of_llama():
    d, q, kv, f = 4096, 4096, 1024, 14336
    assert read_model("llama-3-8b").operators() == (
        Pointwise("norm", d, d, ""),
        Linear(q + 2 * kv, d, "tp", ""),
        Attention(32, 8, 128, causal=True, window=None),
        Linear(d, q, "", "tp"),
        Pointwise("residual", 2 * d, d, ""),
        Pointwise("norm", d, d, ""),
        Linear(2 * f, d, "tp", ""),
        Pointwise("activation", 2 * f, f, "tp"),
        Linear(d, f, "", "tp"),
        Pointwise("residual", 2 * d, d, ""),
    )
    assert read_model("llama-3-8b").head() == Linear(128256, d, "tp", "")


@given(models())
def test_weights_of_the_operators_are_those_of_the_block(model):
    for _, operators in model.blocks():
        linears = [op for op in operators if isinstance(op, Linear)]
        assert sum(op.out_features * op.in_features for op in linears) == model.layer_matmul_parameters
        assert all((op.out_split, op.in_split) in {("tp", ""), ("", "tp")} for op in linears)
        entering = [op for op in linears if op.out_split == "tp"]
        leaving = [op for op in linears if op.in_split == "tp"]
        # Side by side, attention and MLP share the sum over devices, and with one norm the input too.
        assert len(leaving) == (1 if model.parallel else 2)
        assert len(entering) == (1 if model.parallel and model.norms < 2 else 2)


@given(models())
def test_every_layer_is_of_one_kind(model):
    assert sum(count for count, _ in model.blocks()) == model.layers
    cores = [op for _, operators in model.blocks() for op in operators if isinstance(op, Attention)]
    assert len(cores) == len(model.blocks()) == len({core.window for core in cores})
    windowed = sum(
        count
        for count, operators in model.blocks()
        if any(isinstance(op, Attention) and op.window for op in operators)
    )
    assert windowed == model.windowed_layers


@pytest.mark.parametrize(
    ("name", "layers", "windowed"),
    [("gemma-2-9b", 42, 21), ("gemma-3-27b", 62, 52), ("mistral-7b", 32, 32), ("llama-3-8b", 32, 0)],
)
def test_layers_with_a_window(name, layers, windowed):
    model = read_model(name)
    assert (model.layers, model.windowed_layers) == (layers, windowed)
    window = model.window if windowed == layers else None
    assert [op.window for op in model.operators() if isinstance(op, Attention)] == [window]


def test_norms_of_a_block():
    def count(**changes: Any) -> list[str]:
        return [op.name for op in tiny(**changes).operators() if isinstance(op, Pointwise)]

    assert count(norms=4).count("norm") == 4
    assert count().count("norm") == 2
    assert count(parallel=True, norms=1).count("norm") == 1
    assert count(parallel=True).count("norm") == 2
    assert "qk_norm" in count(qk_norm=True)
    assert "qk_norm" not in count()


# What is refused


WRONG: list[tuple[dict[str, Any], str, str]] = [
    *[({name: 0}, name, "a whole number from 1") for name in ("layers", "d_model", "heads", "vocab", "d_ff")],
    ({"layers": -1}, "layers", "a whole number from 1"),
    ({"layers": 2.0}, "layers", "a whole number from 1"),
    ({"layers": True}, "layers", "a whole number from 1"),
    ({"layers": "3"}, "layers", "a whole number from 1"),
    ({"layers": None}, "layers", "a whole number from 1"),
    ({"layers": math.nan}, "layers", "a whole number from 1"),
    ({"layers": MOST + 1}, "layers", "a whole number from 1"),
    ({"d_model": 10**400}, "d_model", "a whole number from 1"),
    ({"kv_heads": 3}, "kv_heads", "a divisor of the 4 heads"),
    ({"kv_heads": 8}, "kv_heads", "a divisor of the 4 heads"),
    ({"gated": 1}, "gated", "true or false"),
    ({"tied": None}, "tied", "true or false"),
    ({"name": 5}, "name", "a text"),
    ({"norms": -1}, "norms", "a whole number from 0"),
    ({"positions": -1}, "positions", "a whole number from 0"),
    ({"window": 0}, "window", "a whole number from 1"),
    ({"window_layers": 2}, "window_layers", "absent without a window"),
    ({"window": 8, "window_layers": 4}, "window_layers", "at most the 3 layers"),
    ({"qk_norm_whole": True}, "qk_norm_whole", "false without qk_norm"),
    ({"embedding_width": 0}, "embedding_width", "a whole number from 1"),
    ({"experts": 8}, "experts", "1, as models with experts are not supported yet"),
    ({"experts": 0}, "experts", "a whole number from 1"),
    ({"published_parameters": 0}, "published_parameters", "a whole number from 1"),
]


@pytest.mark.parametrize(("changes", "field", "must"), WRONG)
def test_a_wrong_field(changes, field, must):
    with pytest.raises(InputError) as caught:
        tiny(**changes)
    assert caught.value.field == field
    assert caught.value.must.startswith(must)
    assert str(caught.value).count("\n") == 0


def test_all_faults_come_in_one_go():
    with pytest.raises(InputErrors) as caught:
        tiny(layers=0, gated="yes", window=-1)
    assert [fault.field for fault in caught.value.errors] == ["layers", "gated", "window"]
    assert str(caught.value).count("\n") == 2
    with pytest.raises(InputErrors) as caught:
        tiny(kv_heads=3, experts=2)
    assert [fault.field for fault in caught.value.errors] == ["kv_heads", "experts"]


def test_a_change_is_checked():
    with pytest.raises(InputError, match="kv_heads"):
        attrs.evolve(tiny(), kv_heads=3)


@given(models())
def test_a_model_is_a_value(model):
    assert attrs.evolve(model) == model
    assert hash(attrs.evolve(model)) == hash(model)
    assert pickle.loads(pickle.dumps(model)) == model
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        model.layers = 1  # type: ignore[misc]


def test_every_field_says_what_it_is():
    assert all(attribute.metadata.get("doc") for attribute in attrs.fields(Model))


# The catalogue


@pytest.mark.parametrize("name", model_names())
def test_an_entry_is_sourced_and_near_what_its_authors_state(name):
    model = read_model(name)
    assert model.name == name
    assert model.title
    assert len(model.source) > 10
    assert "assumed" not in model.source
    assert model.published_parameters is not None
    if model.published_exact:
        assert model.parameters == model.published_parameters
    else:  # rounded to two digits or three
        assert model.parameters == pytest.approx(model.published_parameters, rel=0.03)


def test_the_catalogue_has_what_people_ask_for():
    names = set(model_names())
    assert len(names) >= 100
    families = ("gpt2", "gpt3-", "opt-", "bloom-", "llama-1-", "llama-2-", "llama-3", "mistral-")
    families += ("qwen2.5-", "qwen3-", "gemma-", "falcon-", "mpt-", "nemotron-4-", "palm-", "megatron-")
    families += ("mt-nlg-530b", "phi-", "deepseek-llm-67b", "chinchilla-70b", "bloomberggpt-50b", "gpt-neox")
    assert all(any(name.startswith(family) for name in names) for family in families)
    assert all(name == name.lower() and " " not in name for name in names)
