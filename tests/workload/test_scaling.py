"""From training compute to a model: the closed form must satisfy what it is the solution of."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scalewall.errors import InputError
from scalewall.workload.scaling import (
    BATCH_LAWS,
    DEPTH_LAWS,
    SPARSITY_LAWS,
    VARIABLES,
    PowerLaw,
    Scaling,
    Workload,
)

COMPUTE = [1e22, 3e23, 1e26, 2e28, 1e31]
LAWS = list(itertools.product(BATCH_LAWS, DEPTH_LAWS, SPARSITY_LAWS))


def value(law: str, **variables: float) -> float:
    """The value of a law's text, worked out by Python itself."""
    return float(eval(law.replace("^", "**"), {"__builtins__": {}}, variables))


def check(scaling: Scaling, w: Workload, flop: float) -> None:
    """Every equation that defines a workload."""
    n = 2 * w.d_model * w.d_ff * w.layers * w.sparsity
    assert w.training_flop == flop
    assert w.parameters == pytest.approx(n, rel=1e-12)
    assert 6 * n / w.sparsity * w.tokens == pytest.approx(flop, rel=1e-9)
    assert w.tokens == pytest.approx(scaling.tokens_per_parameter * n, rel=1e-9)
    assert w.d_ff == pytest.approx(scaling.ff_ratio * w.d_model, rel=1e-12)
    assert w.steps == w.tokens / w.batch_tokens
    assert not w.whole
    variables = {"C": flop, "N": n, "D": w.tokens, "S": w.sparsity, "d": w.d_model, "f": w.d_ff}
    assert w.layers == pytest.approx(value(scaling.depth.text, **variables), rel=1e-8)
    assert w.batch_tokens == pytest.approx(value(scaling.batch.text, **variables), rel=1e-8)
    sparse = value(scaling.sparsity.text, d=w.d_model, f=w.d_ff)
    # Below one a model is dense; at its dense width the law must then say so, or nearly.
    assert w.sparsity == pytest.approx(sparse, rel=1e-8) or (w.sparsity == 1.0 and sparse < 1.3)


@pytest.mark.parametrize(("batch", "depth", "sparsity"), LAWS)
@pytest.mark.parametrize("flop", COMPUTE)
def test_named_laws(batch, depth, sparsity, flop):
    named = Scaling(batch=batch, depth=depth, sparsity=sparsity)
    texts = Scaling(batch=BATCH_LAWS[batch], depth=DEPTH_LAWS[depth], sparsity=SPARSITY_LAWS[sparsity])
    w = named.workload(flop)
    assert w == texts.workload(flop)
    check(texts, w, flop)


exponents = st.floats(-0.2, 0.4).filter(bool)


@given(
    flop=st.floats(18, 40).map(lambda x: 10.0**x),
    depth=st.tuples(st.floats(0.1, 1000), exponents, exponents, exponents, exponents),
    batch=st.tuples(st.floats(1, 1e6), exponents, exponents, exponents),
    sparsity=st.tuples(st.floats(1e-3, 1e3), exponents, exponents),
    ratio=st.floats(0.1, 10),
    tokens=st.floats(0.1, 1000),
)
def test_random_laws(flop, depth, batch, sparsity, ratio, tokens):
    scaling = Scaling(
        depth="{!r} * d^{!r} * f^{!r} / S^{!r} * D^{!r}".format(*depth),
        batch="{!r} * S^{!r} * N^{!r} * (C / 1e23)^{!r}".format(*batch),
        sparsity="{!r} * d^{!r} / f^{!r}".format(*sparsity),
        ff_ratio=ratio,
        tokens_per_parameter=tokens,
    )
    try:
        w = scaling.workload(flop)
    except InputError as error:
        assume(error.field != "training_flop")  # less than one block
        raise
    if w.sparsity > 1.0 + 1e-9:
        check(scaling, w, flop)
    else:
        laws = {"depth": scaling.depth, "batch": scaling.batch, "sparsity": "1"}
        dense = Scaling(**laws, ff_ratio=ratio, tokens_per_parameter=tokens)
        check(dense, dense.workload(flop), flop)
        assert w.sparsity > 1.0 or w == dense.workload(flop)


def test_the_papers_gpt3_batch():
    assert Scaling().workload(3e23).batch_tokens == pytest.approx(2**22, rel=1e-12)


def test_batch_grows_as_the_cube_root_of_parameters():
    small, large = Scaling().workload(1e24), Scaling().workload(1e30)
    assert large.batch_tokens / small.batch_tokens == pytest.approx(
        (large.parameters / small.parameters) ** (1 / 3), rel=1e-9
    )


def test_a_sparsity_below_one_means_dense():
    sparse, dense = Scaling(sparsity="baseline"), Scaling()
    least = 8.0**-1  # the width, as a share of 12288, at which the baseline is one
    for flop in (1e18, 1e19, 1e20):
        w = sparse.workload(flop)
        assert (w.sparsity == 1.0) == (dense.workload(flop).d_model < 12288 * least)
        assert w.sparsity > 1.0 or w == dense.workload(flop)
    assert sparse.workload(1e18).sparsity == 1.0
    assert sparse.workload(1e25).sparsity > 1.0


def test_more_compute_is_a_larger_model():
    for scaling in (Scaling(), Scaling(sparsity="baseline"), Scaling(depth="constant")):
        sizes = [scaling.workload(flop) for flop in COMPUTE]
        for name in ("d_model", "layers", "sparsity", "batch_tokens", "tokens", "parameters"):
            values = [getattr(w, name) for w in sizes]
            assert values == sorted(values)


@pytest.mark.parametrize(
    ("text", "coefficient", "powers"),
    [
        ("17.75*D^0.47", 17.75, {"D": 0.47}),
        ("2^22", 2.0**22, {}),
        ("8 * (d*f/(4*12288^2))^0.5", 8 / (2 * 12288), {"d": 0.5, "f": 0.5}),
        ("C^-0.5", 1.0, {"C": -0.5}),
        ("N / D / 2", 0.5, {"N": 1.0, "D": -1.0}),
        ("(C^2)^+.5", 1.0, {"C": 1.0}),
        ("2^(1/2)", math.sqrt(2), {}),
        ("1e3", 1000.0, {}),
    ],
)
def test_what_a_law_means(text, coefficient, powers):
    law = PowerLaw.parse(text)
    assert law.coefficient == pytest.approx(coefficient, rel=1e-14)
    assert {name: e for name, e in law.exponents.items() if e} == pytest.approx(powers)
    assert law.text == text


@given(st.floats(0.01, 100), st.dictionaries(st.sampled_from(VARIABLES), st.floats(-3, 3)), st.data())
def test_a_law_is_a_line_in_logarithms(coefficient, powers, data):
    logs = {name: data.draw(st.floats(-5, 60)) for name in VARIABLES}
    law = PowerLaw.parse(
        " * ".join([repr(coefficient), *(f"{name}^{e!r}" for name, e in powers.items() if e)])
    )
    expected = math.log(coefficient) + sum(e * logs[name] for name, e in powers.items())
    assert law.log(logs) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "A number or variable is missing."),
        ("C^", "The exponent after '^' is missing."),
        ("(C", "A ')' is missing."),
        ("C)", "')' does not belong there."),
        ("C D", "'D' does not belong there."),
        ("C**2", "A number or variable is missing."),
        ("C^D", "An exponent is a number."),
        ("-1*C", "A number or variable is missing."),
        ("0*C", "Its numbers must be positive."),
        ("x^2", "Variables are C, N, D, S, d, f."),
        ("nan", "Variables are C, N, D, S, d, f."),
        ("2^1e308", "A number in it is too large."),
        ("1e308*1e308", "A number in it is too large or too small."),
        ("10^-400", "A number in it is too large or too small."),
        ("C^(1e308*10)", "A number in it is too large or too small."),
    ],
)
def test_what_is_no_law(text, hint):
    with pytest.raises(InputError) as caught:
        PowerLaw.parse(text, "batch_law")
    must = "The 'batch_law' must be a power law such as '17.75*D^0.47'."
    assert str(caught.value) == f"{must} Got {text!r} instead. {hint}"


@given(st.text("CNDSdf0123456789.eE+-*/^() ", max_size=15))
def test_any_text_is_a_law_or_refused(text):
    try:
        law = PowerLaw.parse(text)
    except InputError:
        return
    assert 0 < law.coefficient < math.inf
    assert math.isfinite(law.log(dict.fromkeys(VARIABLES, 1.0)))


def test_a_name_that_is_no_law():
    with pytest.raises(InputError, match=r"must be one of baseline, constant, .* Nearest: baseline\."):
        Scaling(batch="baselin")


def test_sparsity_may_depend_on_the_width_alone():
    with pytest.raises(InputError, match=r"Variables are d, f\."):
        Scaling(sparsity="C^0.1")


@pytest.mark.parametrize("depth", ["d^-3", "d^-2", "1/(d*f)"])
def test_a_depth_under_which_no_width_fits(depth):
    with pytest.raises(InputError, match="wider models are larger"):
        Scaling(depth=depth).workload(1e25)


@pytest.mark.parametrize("flop", [0, -1.0, math.nan, math.inf])
def test_compute_that_is_none(flop):
    with pytest.raises(InputError, match="The 'training_flop' must be a positive number of FLOP"):
        Scaling().workload(flop)


@pytest.mark.parametrize("scaling", [Scaling(), Scaling(depth="1e-9")])
def test_too_little_for_a_block(scaling):
    with pytest.raises(InputError, match="enough for a model of one block"):
        scaling.workload(100.0)


@pytest.mark.parametrize("laws", [{"batch": "C^20"}, {"batch": "S*1e300*C"}])
def test_laws_beyond_all_numbers(laws):
    with pytest.raises(InputError):
        Scaling(**laws).workload(1e25)
