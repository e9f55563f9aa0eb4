"""Inputs: each is set to what it is asked, and to nothing else."""

from __future__ import annotations

import math

import attrs
import pytest

from scalewall.errors import InputError
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Tier
from scalewall.study.inputs import Input, inputs
from scalewall.study.scenario import Scenario, scenario

DEFAULT = scenario()
SPARSE = scenario(hardware="gb200", sparse=True, batch_law="zhang-2024", depth_law="constant")


def moved(number: Input) -> float:
    """Return a value that the input can take and does not have."""
    if number.whole:
        return 2.0 * number.value
    return number.value * (0.9 if number.allows(0.9 * number.value) else 1.1)


def named(asked: Scenario) -> list[tuple[Scenario, str]]:
    return [(asked, name) for name in inputs(asked, asked.clusters[0])]


def test_what_there_is() -> None:
    assert set(inputs(DEFAULT, DEFAULT.clusters[0])) == {
        *("scale_up_bandwidth", "scale_out_bandwidth", "scale_up_latency", "scale_out_latency"),
        *("latency", "kernel_latency", "domain_size", "memory", "memory_bandwidth"),
        *("l2_bandwidth", "sm_bandwidth", "sustained", "peak_rate", "duration", "fill", "sparsity"),
        *("batch_exponent", "batch_constant", "depth_exponent", "depth_constant", "tokens_per_parameter"),
    }


@pytest.mark.parametrize(("asked", "name"), [*named(DEFAULT), *named(SPARSE)])
def test_an_input_is_set_to_what_was_asked(asked: Scenario, name: str) -> None:
    cluster = asked.clusters[0]
    number = inputs(asked, cluster)[name]
    other, elsewhere = number.set(asked, cluster, moved(number))
    assert inputs(other, elsewhere)[name].value == pytest.approx(moved(number), rel=1e-12)
    assert number.set(asked, cluster, number.value) == (asked, cluster)
    assert number.value == inputs(asked, cluster)[name].value  # nothing is changed in place


@pytest.mark.parametrize("name", [n for _, n in named(DEFAULT) if n not in {"latency", "sustained"}])
def test_the_other_inputs_stay(name: str) -> None:
    cluster = DEFAULT.clusters[0]
    before = inputs(DEFAULT, cluster)
    after = inputs(*before[name].set(DEFAULT, cluster, moved(before[name])))
    changed = {n for n in before if after[n].value != pytest.approx(before[n].value, rel=1e-12)}
    assert changed - {"latency"} == {name}


def test_all_latencies_move_together() -> None:
    cluster = DEFAULT.clusters[0]
    number = inputs(DEFAULT, cluster)["latency"]
    assert number.value == pytest.approx(9e-6)  # the closed form's: a kernel and four network operations
    _, slower = number.scale(DEFAULT, cluster, 3.0)
    assert slower.device.kernel_latency == pytest.approx(3.0 * cluster.device.kernel_latency)
    assert [t.latency for t in slower.tiers] == pytest.approx([3.0 * t.latency for t in cluster.tiers])


def test_an_exponent_turns_about_its_pivot() -> None:
    number = inputs(DEFAULT, DEFAULT.clusters[0])["batch_exponent"]
    other, _ = number.set(DEFAULT, DEFAULT.clusters[0], 0.3)
    assert other.scaling.workload(3e23).batch_tokens == pytest.approx(2**22)
    assert other.scaling.workload(3e28).batch_tokens == pytest.approx(2**22 * 1e5**0.3)


def test_an_exponent_without_a_pivot_leaves_the_coefficient() -> None:
    cluster = SPARSE.clusters[0]
    known = inputs(SPARSE, cluster)
    other, _ = known["batch_exponent"].set(SPARSE, cluster, 0.5)
    assert other.scaling.batch.coefficient == pytest.approx(17.75)
    assert other.scaling.batch.exponents == {"D": 0.5}
    assert "depth_exponent" not in known  # a constant has none


def test_both_widths_share_the_exponent_of_the_depth() -> None:
    cluster = DEFAULT.clusters[0]
    other, _ = inputs(DEFAULT, cluster)["depth_exponent"].set(DEFAULT, cluster, 0.4)
    assert other.scaling.depth.exponents == {"d": 0.4, "f": 0.4}


@pytest.mark.parametrize("name", ["batch_exponent", "batch_constant", "depth_exponent", "sparsity"])
def test_a_changed_law_can_be_read_back(name: str) -> None:
    cluster = DEFAULT.clusters[0]
    number = inputs(DEFAULT, cluster)[name]
    other, _ = number.set(DEFAULT, cluster, moved(number))
    again = scenario(**other.as_dict())
    want, got = (s.scaling.workload(1e28) for s in (other, again))
    assert attrs.asdict(got) == pytest.approx(attrs.asdict(want), rel=1e-9)


def test_what_has_no_factor_is_left_out() -> None:
    one = catalogue.load("h100-sxm-infinite-network-low-latency", "epoch-2024")
    known = inputs(DEFAULT, one)
    assert not {name for name in known if name.endswith("_bandwidth")} & {"scale_up_bandwidth"}
    assert all(0 < i.value < math.inf for i in known.values())


def test_more_than_two_tiers_go_by_their_names() -> None:
    cluster = DEFAULT.clusters[0]
    far = Tier(name="Wide-area link", bandwidth=1e9, latency=1e-3)
    three = attrs.evolve(cluster, tiers=(cluster.tiers[0], attrs.evolve(cluster.tiers[1], size=1000.0), far))
    known = inputs(DEFAULT, three)
    assert known["wide_area_link_bandwidth"].value == 1e9
    assert {"domain_size", "infiniband_ndr_size", "infiniband_ndr_latency"} <= set(known)


@pytest.mark.parametrize(
    ("name", "value", "must"),
    [
        ("sustained", 1.2, "a number above 0 to 1"),
        ("memory", 0.0, "a number above 0"),
        ("memory", math.nan, "a number above 0"),
        ("domain_size", 8.5, "a whole number from 1"),
        ("sparsity", 0.5, "a number from 1"),
        ("batch_exponent", 1.5, "a number above 0 to 1"),
    ],
)
def test_bounds_are_kept(name: str, value: float, must: str) -> None:
    cluster = DEFAULT.clusters[0]
    with pytest.raises(InputError) as caught:
        inputs(DEFAULT, cluster)[name].set(DEFAULT, cluster, value)
    assert (caught.value.field, caught.value.must) == (name, must)
