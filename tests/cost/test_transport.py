"""Collectives in practice: errors against measurements, and what holds whatever the constants."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.cost.transport import (
    Link,
    all_gather_seconds,
    all_reduce_seconds,
    all_to_all_seconds,
    links,
    reduce_scatter_seconds,
    send_seconds,
)
from scalewall.errors import InputError
from scalewall.hardware.catalogue import load, load_all
from scalewall.hardware.links import curve_for, load_links

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "comm_sample.csv"
SECONDS = {
    "all_reduce": all_reduce_seconds,
    "all_gather": all_gather_seconds,
    "reduce_scatter": reduce_scatter_seconds,
    "all_to_all": all_to_all_seconds,
}
CLASSES = load_links()
MIB = 2.0**20


# Against measurements


def sampled_errors():
    """Return the relative errors by inner and outer class and collective, each with its size."""
    errors = defaultdict(list)
    with SAMPLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names = [name for name in (row["inner"], row["outer"]) if name]
            tiers = [
                Link(bandwidth=float(bandwidth), curves=CLASSES[name])
                for bandwidth, name in zip(row["bandwidths"].split(), names, strict=True)
            ]
            degrees = [float(degree) for degree in row["members"].split("x")]
            size, seconds = float(row["bytes"]), float(row["seconds"])
            found = SECONDS[row["collective"]](tiers, degrees, size)
            errors[names[-1], row["collective"]].append((size, float(found) / seconds - 1.0))
    return {key: np.array(found).T for key, found in errors.items()}


ERRORS = sampled_errors()


@pytest.mark.parametrize(
    ("name", "collective", "median", "p90"),
    [
        ("nvlink3-a100", "all_reduce", 0.08, 0.20),
        ("nvlink3-a100", "all_gather", 0.08, 0.20),
        ("nvlink3-a100", "reduce_scatter", 0.08, 0.20),
        ("nvlink3-a100", "all_to_all", 0.08, 0.20),
        ("nvlink4-hopper", "all_reduce", 0.06, 0.15),
        ("nvlink4-hopper", "all_gather", 0.06, 0.15),
        ("nvlink4-hopper", "reduce_scatter", 0.06, 0.20),
        ("nvlink4-hopper", "all_to_all", 0.12, 0.30),
        ("nvlink5-blackwell", "all_reduce", 0.08, 0.30),
        ("nvlink5-blackwell", "all_gather", 0.08, 0.25),
        ("nvlink5-blackwell", "reduce_scatter", 0.08, 0.25),
        ("nvlink5-blackwell", "all_to_all", 0.10, 0.20),
        ("infiniband", "all_reduce", 0.15, 0.40),
        ("infiniband", "reduce_scatter", 0.05, 0.10),
        ("infiniband", "all_gather", 0.10, 0.10),
        ("infiniband", "all_to_all", 0.15, 0.15),
        ("efa", "all_reduce", 0.25, 0.70),
    ],
)
def test_errors_against_measurements(name, collective, median, p90):
    errors = np.abs(ERRORS[name, collective][1])
    assert np.median(errors) < median
    assert np.quantile(errors, 0.9) < p90


def test_every_sampled_collective_has_a_bound():
    assert sum(errors.shape[1] for errors in ERRORS.values()) > 300
    assert len(ERRORS) == 17


@pytest.mark.parametrize("name", ["nvlink3-a100", "nvlink4-hopper", "nvlink5-blackwell"])
def test_long_messages_have_no_bias(name):
    long = [
        error
        for (found, _), (sizes, errors) in ERRORS.items()
        if found == name
        for size, error in zip(sizes, errors, strict=True)
        if size >= 64 * MIB
    ]
    assert abs(np.median(long)) < 0.03


# Which tiers have which curves


def test_every_tier_of_the_catalogue_has_a_class():
    for cluster in load_all():
        for link, tier in zip(links(cluster), cluster.tiers, strict=True):
            assert link.bandwidth == tier.bandwidth
            assert link.curves in CLASSES.classes


@pytest.mark.parametrize(
    ("hardware", "expected"),
    [
        ("a100-80gb-sxm", ("nvlink3-a100", "infiniband")),
        ("h100-sxm", ("nvlink4-hopper", "infiniband")),
        ("h200", ("nvlink4-hopper", "infiniband")),
        ("b200", ("nvlink5-blackwell", "infiniband")),
        ("gb200", ("nvlink5-blackwell", "infiniband")),
        ("gaudi2", ("generic-scale-up", "infiniband")),  # RoCE in the node is no scale-out network
        ("tpu-v5p", ("generic-scale-up", "generic-scale-out")),
        ("trainium2", ("generic-scale-up", "efa")),
    ],
)
def test_classes_of_tiers(hardware, expected):
    cluster = load(hardware)
    assert tuple(curve_for(cluster, i, CLASSES).name for i in range(len(cluster.tiers))) == expected


def test_an_unknown_class_names_the_nearest():
    with pytest.raises(InputError, match="infiniband"):
        CLASSES["infinband"]


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "links.toml"
    curve = '{ base = "5 us", hop = 1e-6, share = 0.9 }'
    ops = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")
    text = '[[classes]]\nname = "mine"\nsource = "a test"\n' + "".join(f"{op} = {curve}\n" for op in ops)
    path.write_text(text, encoding="utf-8")
    assert load_links(path)["mine"].send.base == pytest.approx(5e-6)
    path.write_text(text.replace("0.9", "1.9"), encoding="utf-8")
    with pytest.raises(InputError, match="share"):
        load_links(path)


# What holds whatever the size

TIERS = {name: links(load(name)) for name in ("a100-80gb-sxm", "h100-sxm", "gb200", "mi300x", "tpu-v5p")}
some_links = st.sampled_from(sorted(TIERS)).map(TIERS.__getitem__)
some_op = st.sampled_from(sorted(SECONDS))
inner = st.integers(1, 72)
outer = st.integers(1, 4096)
sizes = st.floats(1.0, 1e12)
more = st.floats(1.0, 100.0)


def quicker(tiers, factor):
    return tuple(attrs.evolve(link, bandwidth=link.bandwidth * factor) for link in tiers)


@given(some_links, some_op, inner, outer, sizes, more)
def test_more_bytes_are_never_faster(tiers, op, p, n, size, factor):
    seconds = SECONDS[op](tiers, [p, n], np.array([size, size * factor]))
    assert seconds[0] <= seconds[1]


@given(some_links, some_op, inner, outer, sizes, more)
def test_more_bandwidth_is_never_slower(tiers, op, p, n, size, factor):
    slow, quick = (SECONDS[op](t, [p, n], size) for t in (tiers, quicker(tiers, factor)))
    assert quick <= slow


@given(some_links, some_op, inner, outer, sizes)
def test_more_domains_are_never_faster(tiers, op, p, n, size):
    seconds = SECONDS[op](tiers, [p, np.array([n, n + 1.0, 2.0 * n])], size)
    assert np.all(np.diff(seconds) >= -1e-12 * seconds[0])


@given(some_links, some_op, inner, sizes)
def test_more_members_of_a_domain_are_never_faster(tiers, op, p, size):
    seconds = SECONDS[op](tiers, [np.array([p, p + 1.0, 2.0 * p]), 1], size)
    assert np.all(np.diff(seconds) >= -1e-12 * seconds[-1])


@given(some_links, some_op, sizes)
def test_alone_there_is_nothing_to_do(tiers, op, size):
    assert SECONDS[op](tiers, [1, 1], size) == 0.0


@given(some_links, inner, outer, sizes)
def test_an_all_reduce_is_no_faster_than_its_wires(tiers, p, n, size):
    seconds = all_reduce_seconds(tiers, [p, n], size)
    carried = size if tiers[0].curves.in_switch and p > 1 else 2.0 * (p - 1) / p * size
    assert seconds >= min(carried, 2.0 * (p - 1) / p * size) / tiers[0].bandwidth
    assert seconds >= 2.0 * (n - 1) / n * size / p / tiers[1].bandwidth


@given(some_links, st.sampled_from(["all_gather", "reduce_scatter"]), inner, outer, sizes)
def test_half_an_all_reduce_is_no_faster_than_its_wires(tiers, op, p, n, size):
    seconds = SECONDS[op](tiers, [p, n], size)
    assert seconds >= (p - 1) / p * size / tiers[0].bandwidth
    assert seconds >= (n - 1) / n * size / p / tiers[1].bandwidth


@given(some_links, inner, outer, sizes)
def test_switches_that_reduce_are_never_slower(tiers, p, n, size):
    reducing = (tiers[0], attrs.evolve(tiers[1], in_network_reduction=True))
    assert all_reduce_seconds(reducing, [p, n], size) <= all_reduce_seconds(tiers, [p, n], size)


# Cases


def test_a_group_over_two_nodes_is_no_flat_ring():
    tiers = links(load("h100-sxm"))
    size = 16.0 * 2**30
    flat = 2.0 * 15 / 16 * size / tiers[1].bandwidth
    assert all_reduce_seconds(tiers, [8, 2], size) < flat / 5


def test_a_few_bytes_cost_hops_and_an_all_reduce_climbs_a_tree():
    tiers = links(load("h100-sxm"))
    nodes = np.array([2.0, 512.0])
    tree = all_reduce_seconds(tiers, [8, nodes], 8.0)
    ring = all_gather_seconds(tiers, [8, nodes], 8.0)
    assert tree[1] < 5 * tree[0]
    assert ring[1] > 100 * ring[0]


def test_sends_go_by_their_tier():
    tiers = links(load("h100-sxm"))
    seconds = send_seconds(tiers, np.array([-1, 0, 1]), 64 * MIB)
    assert seconds[0] == 0.0
    # Measured for 64 MiB: 192 µs over NVLink, 1862 over InfiniBand (microsoft/vidur, H100).
    assert seconds[1:] == pytest.approx([192e-6, 1862e-6], rel=0.1)


@pytest.mark.parametrize("op", sorted(SECONDS))
def test_arrays_broadcast(op):
    tiers = links(load("h100-sxm"))
    p, n, size = np.array([1.0, 2.0, 8.0]), np.array([[1.0], [2.0], [64.0]]), np.array([[[1e3]], [[1e9]]])
    every = SECONDS[op](tiers, [p, n], size)
    assert every.shape == (2, 3, 3)
    assert every[1, 2, 1] == SECONDS[op](tiers, [2.0, 64.0], 1e9)
