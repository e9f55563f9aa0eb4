"""The hardware catalogue: every entry is sourced and plausible, and a user's own file is checked."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest

from scalewall.errors import InputError, InputErrors
from scalewall.hardware import catalogue
from scalewall.hardware.cluster import Cluster

PRESET = "epoch-2024"
ENTRIES = [(name, None) for name in catalogue.names()] + [(n, PRESET) for n in catalogue.names(PRESET)]
IDS = [f"{preset or 'catalogue'}/{name}" for name, preset in ENTRIES]

# Names that scripts rely on, and those that follow the same manner.
USED = [
    "h100-sxm",
    "a100-40gb-sxm",
    "a100-80gb-sxm",
    "v100",
    "h200",
    "b200",
    "gb200",
    "b300",
    "gb300",
    "mi250x",
    "mi355x",
    "tpu-v3",
    "tpu-v4",
    "tpu-v5e",
    "tpu-v5p",
    "tpu-v6e",
    "tpu-v7",
    "trainium1",
    "gh200",
]
OTHERS = [
    "gtx-580",
    "k80",
    "p100-sxm",
    "v100-sxm3",
    "a800-sxm",
    "h100-pcie",
    "h100-nvl",
    "h800-sxm",
    "h20",
    "vera-rubin",
    "mi300x",
    "mi325x",
    "gaudi2",
    "gaudi3",
    "trainium2",
]
VARIANTS = [
    "low-latency",
    "global-nvlink",
    "global-nvlink-low-latency",
    "infinite-network-low-latency",
    "superpod",
    "x10",
]

# Keys that hold no number: what a thing is called, or whether something holds.
WORDS = {"title", "vendor", "released", "notes", "name", "base", "pooled"}


@pytest.fixture(params=ENTRIES, ids=IDS)
def entry(request: pytest.FixtureRequest) -> Cluster:
    return catalogue.load(*request.param)


def leaves(tables: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield the path, last key and value of every field; a value with its source counts as one field."""
    if isinstance(tables, list):
        for i, item in enumerate(tables):
            yield from leaves(item, f"{path}[{i}]")
    elif isinstance(tables, dict) and "value" not in tables:
        for key, value in tables.items():
            yield from leaves(value, f"{path}.{key}".lstrip("."))
    else:
        yield path, path.rpartition(".")[2], tables


# --- every entry -------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "preset"), ENTRIES, ids=IDS)
def test_every_number_has_a_source_or_a_derivation(name: str, preset: str | None) -> None:
    folder = Path(catalogue.__file__).parent.parent / "catalogue" / (preset or "")
    tables = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
    for path, key, value in leaves(tables):
        if key in WORDS:
            assert isinstance(value, (str, bool)), path
            continue
        assert isinstance(value, dict), f"{path} stands without a source"
        assert set(value) <= {"value", "source", "derived", "date"}, path
        given = [value[kind] for kind in ("source", "derived") if kind in value]
        assert len(given) == 1, path
        assert len(given[0]) > 10, path


def test_every_field_that_a_file_sets_is_in_the_sources(entry: Cluster) -> None:
    expected = {"device.memory", "device.memory_bandwidth", "device.sustained", "device.kernel_latency"}
    expected |= {f"device.peak.{precision}" for precision in entry.device.peak}
    for i, tier in enumerate(entry.tiers):
        expected |= {f"tiers[{i}].bandwidth", f"tiers[{i}].latency"}
        expected |= {f"tiers[{i}].size"} if math.isfinite(tier.size) else set()
    for i, cache in enumerate(entry.device.caches):
        expected |= {f"device.caches[{i}].capacity"}
        for field in ("bandwidth", "bytes_per_clock"):
            expected |= {f"device.caches[{i}].{field}"} if getattr(cache, field) is not None else set()
    assert expected <= set(entry.sources)
    assert set(entry.derived) == {path for path, source in entry.sources.items() if source.derived}


def test_texts_are_given(entry: Cluster) -> None:
    assert entry.title
    assert entry.vendor in {"NVIDIA", "AMD", "Intel", "Google", "AWS"}
    assert len(entry.notes) > 30
    assert "\n" not in entry.notes


# One list of checks, run over every entry: each returns whether the entry is plausible.
CHECKS: dict[str, Callable[[Cluster], bool]] = {
    "16-bit peak between 1 TFLOP/s and 100 PFLOP/s": lambda c: 1e12 <= c.device.peak_rate() <= 1e17,
    "sustained above 0.3": lambda c: 0.3 < c.device.sustained <= 1,
    "fp8 at least as fast as 16-bit": lambda c: c.device.peak.get("fp8", math.inf) >= c.device.peak_rate(),
    "fp4 at least as fast as fp8": lambda c: (
        c.device.peak.get("fp4", math.inf) >= c.device.peak.get("fp8", 0.0)
    ),
    "fp32 at most as fast as 16-bit": lambda c: c.device.peak.get("fp32", 0.0) <= c.device.peak_rate(),
    "memory between 1 GB and 1 TB": lambda c: 1e9 < c.device.memory < 1e12,
    "memory faster than any network": lambda c: (
        math.isinf(c.tiers[0].bandwidth) or c.device.memory_bandwidth > c.tiers[0].bandwidth
    ),
    "networks no faster outwards": lambda c: all(
        inner.bandwidth >= outer.bandwidth for inner, outer in pairwise(c.tiers)
    ),
    "the last network goes on": lambda c: math.isinf(c.capacity) and math.isinf(c.tiers[-1].size),
    "the first network joins several": lambda c: c.tiers[0].size >= 2,
    "latencies between 0.1 us and 1 ms": lambda c: all(
        1e-7 < latency < 1e-3 for latency in [c.device.kernel_latency, *(t.latency for t in c.tiers)]
    ),
    "at least one cache": lambda c: len(c.device.caches) >= 1,
    # The tenfold variant leaves its SMs as they are, below its L2: that is its question.
    "caches faster inwards, and than memory": lambda c: (
        c.name == "h100-sxm-x10"
        or is_ascending(
            [c.device.memory_bandwidth, *filter(None, map(c.device.cache_bandwidth, c.device.caches))]
        )
    ),
    "more instances inwards, each smaller": lambda c: all(
        outer.instances <= inner.instances and outer.capacity >= inner.capacity
        for outer, inner in pairwise(c.device.caches)
    ),
    "caches between 0.5 MiB and 1 GiB together": lambda c: all(
        2.0**19 <= cache.total_capacity <= 2.0**30 for cache in c.device.caches
    ),
    "clock between 0.5 and 3 GHz": lambda c: c.device.clock is None or 5e8 <= c.device.clock <= 3e9,
    "power between 100 W and 3 kW": lambda c: c.device.power is None or 100 <= c.device.power <= 3000,
    "price between 1 000 and 100 000 USD": lambda c: c.device.price is None or 1e3 <= c.device.price <= 1e5,
    "shared memory keeps up with a large matmul": lambda c: inner_demand(c) <= 1,
}


def is_ascending(values: list[float]) -> bool:
    return all(a < b for a, b in pairwise(values))


def inner_demand(c: Cluster) -> float:
    """Share of the bandwidth between the two innermost levels that a large matmul needs.

    Square tiles of 16-bit words in three quarters of a level; its inputs are read once a row of
    tiles and its output read and written once a column. A share over 1 would mean that the
    measured sustained rate contradicts the levels of the entry.
    """
    if len(c.device.caches) < 3:
        return 0.0
    middle, inner = c.device.caches[-2:]
    bandwidth = c.device.cache_bandwidth(middle)
    assert bandwidth is not None
    sides = [math.sqrt(0.75 * cache.capacity / 2) for cache in (middle, inner)]
    return c.device.sustained_rate() * sum(3 / side for side in sides) / bandwidth


@pytest.mark.parametrize("check", CHECKS, ids=lambda name: name.replace(" ", "-"))
def test_entry_is_plausible(entry: Cluster, check: str) -> None:
    assert CHECKS[check](entry)


# --- the catalogue as a whole ------------------------------------------------------------------


def test_names() -> None:
    assert set(USED) | set(OTHERS) == set(catalogue.names())
    assert len(catalogue.names()) == 34
    expected = {"h100-sxm", "a100-40gb-sxm", "v100", *(f"h100-sxm-{variant}" for variant in VARIANTS)}
    assert expected == set(catalogue.names(PRESET))
    assert catalogue.presets() == [PRESET]


def test_load_all_is_in_order_of_name() -> None:
    assert [c.name for c in catalogue.load_all()] == sorted(catalogue.names())
    assert all(c.name == c.device.name for c in catalogue.load_all())


def test_levels_of_cache() -> None:
    pooled = {c.name for c in catalogue.load_all() if any(cache.pooled for cache in c.device.caches)}
    hopper = {"h100-sxm", "h100-pcie", "h100-nvl", "h800-sxm", "h20", "h200", "gh200"}
    assert pooled == hopper | {"b200", "gb200", "b300", "gb300", "vera-rubin"}
    single = {c.name for c in catalogue.load_all() if len(c.device.caches) == 1}
    assert single == {n for n in catalogue.names() if n.startswith(("tpu-", "gaudi", "trainium"))}


@pytest.mark.parametrize(
    ("name", "rate", "bandwidths", "sizes"),
    [
        ("h100-sxm", 989.4e12, (450e9, 50e9), (8, math.inf)),
        ("a100-80gb-sxm", 312e12, (300e9, 25e9), (8, math.inf)),
        ("gb200", 2500e12, (900e9, 50e9), (72, math.inf)),
        ("gb300", 2500e12, (900e9, 100e9), (72, math.inf)),
        ("gh200", 989.4e12, (450e9, 25e9), (4, math.inf)),
        ("mi250x", 383e12, (350e9, 25e9), (4, math.inf)),
        ("tpu-v5p", 459e12, (600e9, 6.25e9), (6144, math.inf)),
    ],
)
def test_one_direction_and_the_domain(
    name: str, rate: float, bandwidths: tuple[float, ...], sizes: tuple[float, ...]
) -> None:
    cluster = catalogue.load(name)
    assert cluster.device.peak_rate() == pytest.approx(rate)
    assert tuple(t.bandwidth for t in cluster.tiers) == bandwidths
    assert tuple(t.size for t in cluster.tiers) == sizes


# --- the preset has the values of arXiv 2411.01137 ---------------------------------------------

TABLE = {
    # SMs, MHz, sustained, FLOP/clock/SM, HBM and L2 GB/s, L2 MiB, pooled, up and out GB/s both ways, GB
    "v100": (80, 1533, 0.90, 1024, 900, 2155, 6, False, 300, 12.5, 32),
    "a100-40gb-sxm": (108, 1410, 0.85, 2048, 1555, 5603, 40, False, 600, 50, 40),
    "h100-sxm": (132, 1830, 0.70, 4096, 3352, 6441, 50, True, 900, 100, 80),
}


@pytest.mark.parametrize("name", TABLE)
def test_preset_has_the_values_of_the_paper(name: str) -> None:
    sms, mhz, sustained, flop, hbm, l2_rate, l2_size, pooled, up, out, memory = TABLE[name]
    cluster = catalogue.load(name, PRESET)
    device = cluster.device
    l2, sm, block = device.caches
    assert device.clock == mhz * 1e6
    assert device.sustained == sustained
    assert device.peak == pytest.approx({"fp16" if name == "v100" else "bf16": sms * mhz * 1e6 * flop})
    assert (device.memory, device.memory_bandwidth) == (memory * 1e9, hbm * 1e9)
    assert (l2.instances, l2.capacity, l2.bandwidth) == (1, l2_size * 2**20, l2_rate * 1e9)
    assert (sm.instances, sm.capacity, sm.bytes_per_clock, sm.pooled) == (sms, 256 * 1024, 128, pooled)
    assert (block.instances, block.capacity, block.pooled) == (4 * sms, 64 * 1024, False)
    assert device.kernel_latency == pytest.approx(4.5e-6)
    assert [t.size for t in cluster.tiers] == [8, math.inf]
    assert [t.bandwidth for t in cluster.tiers] == [up / 2 * 1e9, out / 2 * 1e9]
    assert [t.latency for t in cluster.tiers] == pytest.approx([1.125e-6] * 2)
    assert all("2411.01137" in source.text for source in cluster.sources.values())
    assert not cluster.derived


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_differ_in_what_they_say_and_nothing_else(variant: str) -> None:
    base = catalogue.load("h100-sxm", PRESET)
    cluster = catalogue.load(f"h100-sxm-{variant}", PRESET)
    device = cluster.device
    tenfold = 10.0 if variant == "x10" else 1.0
    quick = "low-latency" in variant or variant == "x10"
    bandwidths = {"infinite-network-low-latency": [math.inf], "x10": [4.5e12, 5e11]}
    flat = "global" in variant or "infinite" in variant
    plain = [450e9] if flat else [450e9, 50e9]
    assert [t.bandwidth for t in cluster.tiers] == bandwidths.get(variant, plain)
    sizes = [256 if variant == "superpod" else 8, math.inf]
    assert [t.size for t in cluster.tiers] == ([math.inf] if flat else sizes)
    factor = 0.1 if quick else 1.0
    assert device.kernel_latency == pytest.approx(4.5e-6 * factor)
    assert [t.latency for t in cluster.tiers] == pytest.approx([1.125e-6 * factor] * len(cluster.tiers))
    assert device.memory_bandwidth == pytest.approx(3352e9 * tenfold)
    assert device.caches[0].bandwidth == pytest.approx(6441e9 * tenfold)
    assert device.caches[1:] == base.device.caches[1:]
    untouched = {"name": base.device.name, "kernel_latency": 4.5e-6, "memory_bandwidth": 3352e9}
    assert attrs.evolve(device, **untouched, caches=base.device.caches) == base.device
    changed = {path for path, source in cluster.sources.items() if "hypothetical" in source.text}
    assert {f"tiers[{i}].bandwidth" for i in range(len(cluster.tiers))} <= changed
    assert "device.memory" not in changed


# --- a user's own file -------------------------------------------------------------------------

PLAIN = """
title = "Mine"
[device]
sustained = 0.7
clock = "1.5 GHz"
memory = "80 GB"
memory_bandwidth = "2 TB/s"
[device.peak]
bf16 = "500 TFLOP/s"
[[device.caches]]
name = "L2"
capacity = "40 MiB"
bandwidth = "5 TB/s"
[[tiers]]
name = "fast"
size = 8
bandwidth = "300 GB/s"
latency = "1us"
[[tiers]]
name = "slow"
bandwidth = "200 Gb/s"
latency = "2us"
"""


def write(folder: Path, text: str, name: str = "mine.toml") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def faults(error: pytest.ExceptionInfo[InputError]) -> set[str]:
    found = error.value.errors if isinstance(error.value, InputErrors) else [error.value]
    return {fault.field for fault in found}


def test_plain_values_need_no_source(tmp_path: Path) -> None:
    cluster = catalogue.load(write(tmp_path, PLAIN))
    assert cluster.name == cluster.device.name == "mine"
    assert cluster.device.memory_bandwidth == 2e12
    assert cluster.tiers[1].bandwidth == 25e9
    assert cluster.sources == {}


def test_plain_and_sourced_values_mix(tmp_path: Path) -> None:
    text = PLAIN.replace(
        'memory = "80 GB"', 'memory = { value = "80 GB", source = "a datasheet", date = "2022" }'
    )
    cluster = catalogue.load(write(tmp_path, text.replace("= 0.7", '= { value = 0.7, derived = "a guess" }')))
    assert cluster.sources["device.memory"].text == "a datasheet"
    assert cluster.sources["device.memory"].date == "2022"
    assert cluster.derived == {"device.sustained": "a guess"}


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"300 GB/s"', '"-300 GB/s"', "tiers[0].bandwidth"),
        ('"2 TB/s"', "0", "device.memory_bandwidth"),
        ('"2 TB/s"', '"2 TB"', "device.memory_bandwidth"),
        ("= 0.7", "= 1.7", "device.sustained"),
        ("size = 8", "size = 7.5", "tiers[0].size"),
        ("size = 8", "", "tiers[0].size"),
        ('bf16 = "500 TFLOP/s"', 'bf61 = "500 TFLOP/s"', "device.peak.bf61"),
        ('bf16 = "500 TFLOP/s"', "", "device.peak"),
        ('bf16 = "500 TFLOP/s"', 'bf16 = "fast"', "device.peak.bf16"),
        ('memory = "80 GB"', "", "device.memory"),
        ('memory = "80 GB"', 'memmory = "80 GB"', "device.memmory"),
        ('capacity = "40 MiB"', 'capacity = "40 MiB"\ninstances = 1.5', "device.caches[0].instances"),
        (
            'capacity = "40 MiB"',
            'capacity = "40 MiB"\nbytes_per_clock = 64',
            "device.caches[0].bytes_per_clock",
        ),
    ],
)
def test_each_fault_is_named_by_its_path(tmp_path: Path, old: str, new: str, field: str) -> None:
    assert old in PLAIN
    with pytest.raises(InputError) as error:
        catalogue.load(write(tmp_path, PLAIN.replace(old, new, 1)))
    assert field in faults(error)
    assert f"'{field}'" in str(error.value)


def test_a_negative_bandwidth_quotes_what_was_written(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        catalogue.load(write(tmp_path, PLAIN.replace('"200 Gb/s"', '"-200 Gb/s"')))
    assert str(error.value) == (
        "The 'tiers[1].bandwidth' must be a positive number of B/s. Got '-200 Gb/s' instead."
    )


def test_four_faults_are_reported_in_one_go(tmp_path: Path) -> None:
    text = PLAIN.replace("= 0.7", "= 7").replace('"80 GB"', '"much"').replace("1us", "-1us")
    text = text.replace('"40 MiB"', '"40 MHz"')
    with pytest.raises(InputErrors) as error:
        catalogue.load(write(tmp_path, text))
    assert faults(error) == {
        "device.sustained",
        "device.memory",
        "tiers[0].latency",
        "device.caches[0].capacity",
    }
    assert len(str(error.value).splitlines()) == 4


def test_unknown_device_names_the_nearest() -> None:
    with pytest.raises(InputError) as error:
        catalogue.load("h100-smx")
    assert error.value.field == "hardware"
    assert "h100-sxm" in error.value.hint


def test_unknown_preset_names_the_known() -> None:
    with pytest.raises(InputError, match=PRESET):
        catalogue.load("h100-sxm", "epoch-2023")


@pytest.mark.parametrize("text", [None, "device = [", b"\xff\xfe"], ids=["missing", "not-toml", "not-text"])
def test_unreadable_file(tmp_path: Path, text: str | bytes | None) -> None:
    path = tmp_path / "mine.toml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as error:
        catalogue.load(str(path))
    assert error.value.field == "file"
    assert "mine.toml" in str(error.value)


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match=r"folder\.toml"):
        catalogue.load(str(tmp_path / "folder.toml"))


def test_an_entry_may_say_only_what_differs(tmp_path: Path) -> None:
    text = 'base = "h100-sxm"\n[device]\nmemory = { value = "160 GB", source = "a dream, twice the size" }\n'
    cluster, base = catalogue.load(write(tmp_path, text)), catalogue.load("h100-sxm")
    assert cluster.device == attrs.evolve(base.device, name="mine", memory=160e9)
    assert cluster.tiers == base.tiers
    assert cluster.sources["device.memory"].text == "a dream, twice the size"
    assert cluster.sources["device.clock"] == base.sources["device.clock"]


def test_a_device_names_the_precisions_it_has() -> None:
    with pytest.raises(InputError, match=r"one that v100 has: fp32, fp16, bf16\. Got 'fp8'"):
        catalogue.load("v100").device.peak_rate("fp8")


def test_what_is_laid_over_an_entry_keeps_its_curves(tmp_path: Path) -> None:
    over = write(tmp_path, 'base = "h100-sxm"\n[device]\nmemory = "141 GB"\n')
    assert catalogue.load(over).device.curves == "h100-sxm"
    assert catalogue.load("h100-sxm-low-latency", PRESET).device.curves == "h100-sxm"
    assert catalogue.load(write(tmp_path, PLAIN, "h100-sxm.toml")).device.curves == "generic"
    with pytest.raises(InputError, match=r"'device\.curves' must be a device of the catalogue.*h100-sxm"):
        catalogue.load(write(tmp_path, 'base = "h200"\n[device]\ncurves = "h100-smx"\n'))


def test_a_list_of_the_base_is_replaced_with_its_sources(tmp_path: Path) -> None:
    text = 'base = "h100-sxm"\n[[tiers]]\nname = "one"\nbandwidth = "1 TB/s"\nlatency = "1us"\n'
    cluster = catalogue.load(write(tmp_path, text))
    assert [t.name for t in cluster.tiers] == ["one"]
    assert not [path for path in cluster.sources if path.startswith("tiers")]
    assert "device.memory" in cluster.sources


def test_a_base_may_be_a_file_beside(tmp_path: Path) -> None:
    write(tmp_path, PLAIN, "below.toml")
    cluster = catalogue.load(write(tmp_path, 'base = "below.toml"\n[device]\nsustained = 0.5\n'))
    assert (cluster.device.sustained, cluster.device.memory) == (0.5, 80e9)


def test_a_base_is_looked_up_in_the_preset(tmp_path: Path) -> None:
    path = write(tmp_path, 'base = "h100-sxm"\n')
    assert catalogue.load(path, PRESET).device.sustained == 0.7
    assert catalogue.load(path).device.sustained == 0.803


@pytest.mark.parametrize(
    "bases",
    [{"a": "a.toml"}, {"a": "b.toml", "b": "a.toml"}, {"a": "../{folder}/a.toml"}],
    ids=["itself", "each-other", "itself-by-a-detour"],
)
def test_a_circular_base(tmp_path: Path, bases: dict[str, str]) -> None:
    for name, base in bases.items():
        write(tmp_path, f'base = "{base.format(folder=tmp_path.name)}"\n', f"{name}.toml")
    with pytest.raises(InputError) as error:
        catalogue.load(str(tmp_path / "a.toml"))
    assert error.value.field == "base"


@pytest.mark.parametrize("base", ['"h100-smx"', "7"])
def test_an_unknown_base(tmp_path: Path, base: str) -> None:
    with pytest.raises(InputError):
        catalogue.load(write(tmp_path, f"base = {base}\n"))


@pytest.mark.parametrize(
    "text", ["", "device = 7", "tiers = 7", "[device]\n", "[tiers]\nname = 'x'\n", "x = 1"]
)
def test_anything_else_is_an_input_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        catalogue.load(write(tmp_path, text))
