"""Fit the constants of collectives to measurements, write src/scalewall/data/links.toml, print the errors.

    python scripts/fit_collectives.py COMM_DIR MEASURED.csv

A sample of the measurements goes to tests/data/comm_sample.csv.

COMM_DIR holds sweeps inside a node by device, collective, members and size (ai-dynamo/aiconfigurator,
Apache-2.0: device, op_name, nccl_dtype, num_gpus, bytes, latency_us) and logs of nccl-tests (one comment
line, then bytes, time_us, …). MEASURED.csv has single figures with hardware, quantity, condition, value
and citation. What is fitted is the product's own law, `scalewall.cost.transport`, called as it is.

What to know of the data
- `bytes` is the whole buffer: of an all-gather what is gathered, of a reduce-scatter what goes in. (Were
  it a device's part, eight A100 would gather at 1.6 TB/s each.) It is in bytes for `half` too.
- Sums of int8 are never left to the switches and cost more arithmetic. Training adds up 16-bit numbers:
  only `half` is fitted, but for all-reduces of eight on Hopper and Blackwell, where int8 shows the ring.
- Several files of one device repeat a point: the median counts.
- The run of 20 racks of GB200 is left out of the fit and shown in the table: nothing bounds it there.
Needs scipy.
"""

import csv
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import numpy as np
from scipy.optimize import least_squares

from scalewall.cost import transport
from scalewall.cost.transport import Link
from scalewall.hardware.links import Curve, LinkClass

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "src" / "scalewall" / "data" / "links.toml"
SAMPLE = ROOT / "tests" / "data" / "comm_sample.csv"
GIB = 2.0**30
SECONDS = {
    "all_reduce": transport.all_reduce_seconds,
    "all_gather": transport.all_gather_seconds,
    "reduce_scatter": transport.reduce_scatter_seconds,
    "all_to_all": transport.all_to_all_seconds,
}
DEVICES = {  # class, bytes/s a device and direction
    "a100_sxm": ("nvlink3-a100", 300e9),
    "h100_sxm": ("nvlink4-hopper", 450e9),
    "h200_sxm": ("nvlink4-hopper", 450e9),
    "b200_sxm": ("nvlink5-blackwell", 900e9),
    "b300_sxm": ("nvlink5-blackwell", 900e9),
    "gb200": ("nvlink5-blackwell", 900e9),
    "gb300": ("nvlink5-blackwell", 900e9),
}
LEVEL = 7 / 3  # a tree is taken to be as long as the ring at eight members, the most that was swept
RING_BASE = 5e-6  # as inside a node of Hopper
PEER = 1e-6  # of a message to one more peer across nodes: assumed, near the one measurement at hand
EXCHANGE_SHARE = 0.9  # of an all-to-all across nodes: likewise
MOST_SHARE = 0.97  # of a network's bandwidth: the best that is measured is 386.6 of 400 GB/s


@attrs.frozen
class Point:
    """One measurement: a collective of `degrees` members a tier on `system`, its tiers' bandwidths."""

    system: str
    op: str
    dtype: str
    degrees: tuple[int, ...]
    bandwidths: tuple[float, ...]
    size: float
    seconds: float
    reduced: bool = False  # by the switches of the outer tier
    weight: float = 1.0


def main(arguments: list[str]) -> int:
    """Fit, write and print."""
    if len(arguments) != 2:
        print("Give two arguments: the folder of sweeps, and the table of single figures.", file=sys.stderr)
        return 2
    points = sweeps(Path(arguments[0])) + logs(Path(arguments[0])) + figures(Path(arguments[1]))
    inner = {
        name: fit_inner(name, points) for name in ("nvlink3-a100", "nvlink4-hopper", "nvlink5-blackwell")
    }
    outer = {name: fit_outer(name, inner, points) for name in ("efa", "infiniband")}
    classes = [*with_errors([*inner.values(), *outer.values()], points)]
    classes += [generic("generic-scale-up", list(inner.values())), generic_out(outer["infiniband"])]
    TARGET.write_text(toml(classes), encoding="utf-8")
    write_sample(points)
    show_errors(classes, points)
    return 0


# Measurements


def sweeps(folder: Path) -> list[Point]:
    """Return the medians of the sweeps inside a node."""
    seen: dict[tuple[str, str, str, int, float], list[float]] = defaultdict(list)
    for path in sorted(folder.glob("aiconfigurator_*.csv")):
        device = path.name.removeprefix("aiconfigurator_").split("__")[0]
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                op = row["op_name"].replace("alltoall", "all_to_all")
                key = (device, op, row["nccl_dtype"], int(row["num_gpus"]), float(row["bytes"]))
                seen[key].append(float(row["latency_us"]) * 1e-6)
    return [
        Point(device, op, dtype, (members,), (DEVICES[device][1],), size, statistics.median(times))
        for (device, op, dtype, members, size), times in sorted(seen.items())
    ]


LOGS = {  # file, degrees and bandwidths of the tiers
    "nvidia_h100_1node": ("h100_sxm", (8,), (450e9,)),
    "coreweave_gb200_72": ("gb200", (72,), (900e9,)),
    "coreweave_gb200_144": ("gb200", (72, 2), (900e9, 50e9)),
    "coreweave_gb200_1440": ("gb200", (72, 20), (900e9, 50e9)),
    "coreweave_h100_64": ("h100_sxm", (8, 8), (450e9, 50e9)),
    "aws_2xp4de": ("a100_sxm", (8, 2), (300e9, 6.25e9)),
    "aws_2xp5": ("h100_sxm", (8, 2), (450e9, 50e9)),
}


def logs(folder: Path) -> list[Point]:
    """Return the all-reduces that logs of nccl-tests hold."""
    found = []
    for name, (device, degrees, bandwidths) in LOGS.items():
        with (folder / f"nccltests_{name}_allreduce.csv").open(newline="", encoding="utf-8") as file:
            next(file)
            for row in csv.DictReader(file):
                seconds = float(row["time_us"]) * 1e-6
                size = float(row["bytes"])
                if size >= 512:
                    system = f"{device} {name}"
                    found.append(Point(system, "all_reduce", "float", degrees, bandwidths, size, seconds))
    return found


SIZES = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


def figures(table: Path) -> list[Point]:
    """Return the single figures that say where and how they were measured."""
    found = []
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        place, what, how, value = row["hardware"], row["quantity"], row["condition"], row["value"]
        if what == "all_reduce busbw" and "payload" in how and place.startswith(("H200 8-GPU", "B200")):
            text = how.split("payload ")[1]
            size = float(text[:-3]) * SIZES[text[-3:]]
            device = "h200_sxm" if place.startswith("H200") else "b200_sxm"
            if "4x8" not in place and size >= 2.0**24:  # below, a benchmark in Python is slower than NCCL
                found.append(busbw(f"{device} 1 node", "all_reduce", (8,), size, value))
            elif "4x8" in place and size >= 2.0**18:  # below, two digits of busbw are left
                found.append(busbw(f"{device} efa", "all_reduce", (8, 4), size, value))
        elif (place, what, how.split(", ")[0]) in LONGEST:
            device, op = LONGEST[place, what, how.split(", ")[0]]
            point = busbw(f"{device} longest", op, (8,), 16 * GIB, value)
            found.append(attrs.evolve(point, dtype="ring", weight=10.0))
        elif row["citation"].startswith("arXiv 2411.13055") and what == "all_reduce busbw":
            text, nodes = how.split(", ")
            number, unit = text.split()
            degrees = (8, int(nodes.split()[0]))
            found.append(busbw("h100_sxm ib", "all_reduce", degrees, float(number) * SIZES[unit], value))
        elif place == "H100 2 nodes (OCI)":
            found.append(busbw("h100_sxm ib", "all_reduce", (8, 2), 16 * GIB, value))
        elif place == "H100 8 nodes IB":
            point = busbw("h100_sxm sharp", "all_reduce", (8, 8), 16 * GIB, value)
            found.append(attrs.evolve(point, reduced=True))
        elif (place, what) in SHORT and how in ("NCCL", "2 nodes, 16 GPUs") + ("",) * (what.endswith(" 8 B")):
            system, degrees, size = SHORT[place, what]
            found.append(point_of(system, "all_reduce", degrees, size, float(value.split("-")[0]) * 1e-6))
    return found + ISSUES


# Rings of eight at the largest sizes, which the sweeps do not reach: each counts as ten points.
LONGEST = {
    ("A100 8-GPU", "all_reduce busbw", "1 node"): ("a100_sxm", "all_reduce"),
    ("H200 8-GPU", "all-reduce, `NCCL_NVLS_ENABLE=0` busbw", "Ring"): ("h200_sxm", "all_reduce"),
    ("H200 8-GPU", "all-gather busbw", "Ring"): ("h200_sxm", "all_gather"),
    ("H200 8-GPU", "reduce-scatter busbw", "Ring"): ("h200_sxm", "reduce_scatter"),
}
SHORT = {  # all-reduces of little
    ("H100 2x8 GPU IB", "all_reduce time 1 KB"): ("h100_sxm ib", (8, 2), 1e3),
    ("A100 2x8", "all_reduce time 2 KB"): ("a100_sxm ib", (8, 2), 2e3),
    ("A100 2 nodes x1 GPU HDR IB", "all_reduce time 8 B"): ("a100_sxm ib", (1, 2), 8.0),
}


def point_of(system: str, op: str, degrees: tuple[int, ...], size: float, seconds: float) -> Point:
    """Return a measurement on a device with its usual network."""
    device = system.split()[0]
    bandwidths = (DEVICES[device][1], 25e9 if device == "a100_sxm" else 50e9)[: len(degrees)]
    return Point(system, op, "", degrees, bandwidths, size, seconds)


def busbw(system: str, op: str, degrees: tuple[int, ...], size: float, gigabytes: str | float) -> Point:
    """Return the point behind a bus bandwidth, which is a ring's bytes over the time."""
    members = math.prod(degrees)
    carried = (2 if op == "all_reduce" else 1) * (members - 1) / members * size
    return point_of(system, op, degrees, size, carried / float(gigabytes) / 1e9)


# Reports in the issues of NVIDIA/nccl and NVIDIA/nccl-tests, of H100 and A100 with InfiniBand or RoCE.
# Where a report of the largest bandwidth gives no size, 16 GiB is taken, the largest that is usual.
ISSUES = [
    busbw("h100_sxm ib", "all_gather", (8, 32), 2 * GIB, 200),  # nccl 1218
    busbw("h100_sxm ib", "all_reduce", (8, 32), 2 * GIB, 340),
    *(  # nccl 1229; no size
        busbw("h100_sxm ib", "reduce_scatter", (8, nodes), 16 * GIB, value)
        for nodes, value in zip((4, 8, 16, 32, 64, 128), (360, 345, 320, 300, 280, 260), strict=True)
    ),
    busbw("h100_sxm ib", "all_reduce", (8, 2), 16 * GIB, 470),  # nccl-tests 309; no size
    busbw("h100_sxm ib", "all_reduce", (8, 4), 16 * GIB, 365.84),
    busbw("h200_sxm ib", "all_reduce", (8, 248), GIB / 2, 350),  # nccl-tests 283; "typically"
    point_of("h100_sxm ib", "all_reduce", (8, 2), 128.0, 61.6e-6),  # nccl 1453
    point_of("h200_sxm ib", "all_reduce", (8, 2), 512.0, 46.58e-6),  # nccl 1244: H20
    point_of("h100_sxm ib", "all_reduce", (8, 16), 512.0, 67.4e-6),  # nccl 1469
    point_of("h100_sxm ib", "all_reduce", (8, 16), 4096.0, 76.6e-6),
    busbw("h100_sxm ib", "all_reduce", (8, 16), 2.0**26, 150),  # "a normal value"
    attrs.evolve(  # nccl 652: four adapters for eight
        point_of("a100_sxm ib", "all_reduce", (8, 32), 128.0, 63.9e-6), bandwidths=(300e9, 12.5e9)
    ),
    point_of("h100_sxm ib", "all_to_all", (8, 8), 2.0**23, 337.8e-6),  # nccl 1531: H800
]


# Fits


def class_of(point: Point) -> str:
    """Return the class of the point's innermost tier."""
    return DEVICES[point.system.split()[0]][0]


def outer_of(point: Point) -> str:
    """Return the class of the point's outer tier."""
    return "efa" if "aws" in point.system or "efa" in point.system else "infiniband"


def predicted(op: str, classes: Sequence[LinkClass], points: Sequence[Point]) -> np.ndarray:
    """Return the law's seconds of `points`, all with as many tiers as there are classes."""
    result = np.empty(len(points))
    keys = sorted({(point.bandwidths, point.reduced) for point in points})
    for bandwidths, reduced in keys:
        here = [
            i for i, point in enumerate(points) if (point.bandwidths, point.reduced) == (bandwidths, reduced)
        ]
        links = tuple(
            Link(bandwidth=bandwidth, curves=curves, in_network_reduction=reduced and i > 0)
            for i, (bandwidth, curves) in enumerate(zip(bandwidths, classes, strict=True))
        )
        degrees = [np.array([points[i].degrees[tier] for i in here], float) for tier in range(len(links))]
        result[here] = SECONDS[op](links, degrees, np.array([points[i].size for i in here]))
    return result


def fit(
    make: Callable[[np.ndarray], np.ndarray],
    points: Sequence[Point],
    start: Sequence[float],
    least: Sequence[float],
    most: Sequence[float],
) -> np.ndarray:
    """Return the constants for which `make` gives the seconds of `points` best, by their logarithm.

    Outliers are held back: where NCCL chooses badly, the law should not follow.
    """
    seconds = np.array([point.seconds for point in points])
    weights = np.sqrt([point.weight for point in points])
    scale = np.array([max(abs(value), 1e-9) for value in start])
    found = least_squares(
        lambda x: weights * np.log(make(x * scale) / seconds),
        np.array(start) / scale,
        bounds=(np.array(least) / scale, np.array(most) / scale),
        loss="soft_l1",
        f_scale=0.1,
    )
    return np.asarray(found.x * scale)


BLANK = Curve(base=1e-5, hop=1e-6, share=0.8)
START = (7e-6, 1e-6, 0.8, 0.5, 0.3)
LEAST = (1e-7, 1e-8, 0.2, 0.0, 0.0)
MOST = (1e-4, 1e-4, 1.0, 1.5, 1.0)


def curve(x: np.ndarray, level: float) -> Curve:
    """Return the curve of five constants."""
    base, hop, share, fill, own = (float(value) for value in x)
    return Curve(base=base, hop=hop, share=share, fill=fill, own=own, level=level)


def blank(name: str, *, outer: bool = False) -> LinkClass:
    """Return a class whose curves are still to be fitted."""
    every = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"), BLANK)
    return LinkClass(name=name, outer=outer, source=SOURCES[name], names=NAMES[name], **every)


def fit_inner(name: str, points: Sequence[Point]) -> LinkClass:
    """Return the class of an innermost tier, fitted to what was measured inside a domain."""
    here = [point for point in points if class_of(point) == name and len(point.degrees) == 1]
    empty, switched = blank(name), name != "nvlink3-a100"
    curves: dict[str, Curve] = {}
    for op in SECONDS:
        chosen = [point for point in here if point.op == op and ring_shows(point, switched)]
        level = LEVEL if op == "all_reduce" else math.inf

        def make(x: np.ndarray, op: str = op, level: float = level) -> LinkClass:
            return attrs.evolve(empty, **{op: curve(x, level)})

        curves[op] = getattr(make(fit_class(make, chosen, START, LEAST, MOST)), op)
    result = attrs.evolve(empty, **curves, send=SENDS[name])
    if not switched:
        return result

    def with_switch(x: np.ndarray) -> LinkClass:
        base, share, fill = (float(value) for value in x)
        in_switch = Curve(base=base, hop=result.all_reduce.hop, share=share, fill=fill, level=LEVEL)
        return attrs.evolve(result, in_switch=in_switch)

    chosen = [
        p for p in here if p.op == "all_reduce" and p.dtype not in ("int8", "ring") and p.degrees[0] >= 8
    ]
    return with_switch(fit_class(with_switch, chosen, (1e-5, 0.6, 0.5), (1e-7, 0.2, 0.0), (1e-4, 1.0, 3.0)))


def fit_class(
    make: Callable[[np.ndarray], LinkClass], chosen: Sequence[Point], *bounds: Sequence[float]
) -> np.ndarray:
    """Return the constants for which the class that `make` gives fits the `chosen` of one collective best."""
    return fit(lambda x: predicted(chosen[0].op, [make(x)], chosen), chosen, *bounds)


def ring_shows(point: Point, switched: bool) -> bool:
    """Whether a point inside a domain was carried by a ring (or tree), and in 16-bit numbers if it can."""
    if point.op == "all_reduce" and switched and point.degrees[0] >= 8:
        return point.dtype in ("int8", "ring")
    return point.dtype != "int8"


def fit_outer(name: str, inner: dict[str, LinkClass], points: Sequence[Point]) -> LinkClass:
    """Return the class of a tier between domains, fitted to all-reduces and rings across them."""
    across = [p for p in points if len(p.degrees) == 2 and outer_of(p) == name and "1440" not in p.system]
    result = blank(name, outer=True)

    def fitted(
        ops: Sequence[str],
        make: Callable[[np.ndarray], Curve],
        start: Sequence[float],
        *bounds: Sequence[float],
    ) -> Curve:
        """Return the best curve that `make` gives for all measurements of `ops`."""
        chosen = [point for point in across if point.op in ops]

        def law(x: np.ndarray) -> np.ndarray:
            now = attrs.evolve(
                result, **dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), make(x))
            )
            return everywhere([*inner.values(), now], chosen)

        return make(fit(law, chosen, start, *bounds))

    reduce = fitted(
        ["all_reduce"],
        lambda x: Curve(base=float(x[0]), hop=float(x[1]), share=float(x[2]), fill=float(x[3]), level=1.0),
        (2e-5, 1e-5, 0.9, 1.0),
        (1e-6, 1e-6, 0.3, 0.0),
        (1e-3, 1e-3, MOST_SHARE, 3.0),
    )
    # A level of a tree is passed up and down, a hop of a ring once; only large rings are measured.
    ring = Curve(base=RING_BASE, hop=reduce.hop / 2, share=reduce.share, fill=reduce.fill)
    if name == "infiniband":
        ring = fitted(
            ["all_gather", "reduce_scatter"],
            lambda x: attrs.evolve(ring, share=float(x[0]), fill=float(x[1])),
            (0.95, 0.9),
            (0.3, 0.0),
            (MOST_SHARE, 3.0),
        )
    exchange = attrs.evolve(SENDS[name], hop=PEER, share=EXCHANGE_SHARE)
    curves = {"all_reduce": reduce, "all_gather": ring, "reduce_scatter": ring, "all_to_all": exchange}
    return attrs.evolve(result, **curves, send=SENDS[name])


def everywhere(classes: Sequence[LinkClass], points: Sequence[Point]) -> np.ndarray:
    """Return the law's seconds of `points` of any collective on any system."""
    known = {one.name: one for one in classes}
    groups = defaultdict(list)
    for i, point in enumerate(points):
        outer = (outer_of(point),) if len(point.degrees) == 2 else ()
        groups[point.op, class_of(point), outer].append(i)
    result = np.empty(len(points))
    for (op, first, outer), here in groups.items():
        of = [known[first], *(known[other] for other in outer)]
        result[here] = predicted(op, of, [points[i] for i in here])
    return result


def generic(name: str, fitted: Sequence[LinkClass]) -> LinkClass:
    """Return a class in the middle of the `fitted`, for tiers that nobody has measured."""
    curves = {}
    for op in (*SECONDS, "send"):
        every = [getattr(one, op) for one in fitted]
        middle = {
            key: statistics.median(getattr(one, key) for one in every)
            for key in ("base", "hop", "share", "fill", "own")
        }
        curves[op] = Curve(**middle, level=math.inf if op in ("all_to_all", "send") else LEVEL)
    return LinkClass(name=name, source=SOURCES[name], **curves)


def generic_out(fitted: LinkClass) -> LinkClass:
    """Return the class of tiers between domains that nobody has measured."""
    name = "generic-scale-out"
    return attrs.evolve(fitted, name=name, names=(), source=SOURCES[name], median_error=None, p90_error=None)


# What is not fitted here: which tiers a class covers, its sources, and what it takes to send to one peer.

NAMES = {
    "nvlink3-a100": ("NVLink 3",),
    "nvlink4-hopper": ("NVLink 4",),
    "nvlink5-blackwell": ("NVLink 5", "NVLink 6"),
    "infiniband": ("InfiniBand", "Ethernet", "RoCE"),
    "efa": ("EFA",),
    "generic-scale-up": (),
    "generic-scale-out": (),
}
SOURCES = {
    "nvlink3-a100": "ai-dynamo/aiconfigurator (Apache-2.0), NCCL 2.27.3 on 2, 4 and 8 A100 SXM;"
    " stas00/ml-engineering@744d01e at 16 GiB",
    "nvlink4-hopper": "ai-dynamo/aiconfigurator (Apache-2.0), NCCL 2.23 to 2.29 on 2, 4 and 8 H100 and H200"
    " SXM; to 16 GiB stas00/ml-engineering@744d01e and, in the switch, NVIDIA/dgxc-benchmarking@841f546",
    "nvlink5-blackwell": "ai-dynamo/aiconfigurator (Apache-2.0), NCCL 2.23 to 2.29 on 2, 4 and 8 B200, B300,"
    " GB200, GB300; in the switch also stas00/ml-engineering@744d01e and 72 GB200 of"
    " coreweave/nccl-tests@cb86553",
    "infiniband": "all-reduces over 2 to 512 nodes of H100 and A100 (arXiv 2411.13055, read off a figure;"
    " coreweave/nccl-tests@cb86553, 2 racks of GB200 among them; NVIDIA/nccl issues 652, 1218, 1244, 1453,"
    " 1469; NVIDIA/nccl-tests issues 150, 283, 309; microsoft/mscclpp@1f5f065; microsoft/vidur@7d47513);"
    " rings over 4 to 128 nodes (NVIDIA/nccl issues 1218, 1229); a peer's message assumed",
    "efa": "all-reduces over 2 nodes of A100 and of H100 (aws-samples/awsome-distributed-training@7217859)"
    " and 4 of B200 (stas00/ml-engineering@744d01e); rings and a peer's message not measured",
    "generic-scale-up": "not measured: the middle of the NVLink classes, with trees for every ring",
    "generic-scale-out": "not measured: as infiniband",
}
SENDS = {
    # microsoft/vidur@7d47513 (2 KB; 64 MB) and stas00/ml-engineering@744d01e (largest, of one pair).
    "nvlink3-a100": Curve(base=8e-6, hop=0.0, share=0.91, fill=0.3),
    "nvlink4-hopper": Curve(base=5e-6, hop=0.0, share=0.88, fill=0.3),
    "nvlink5-blackwell": Curve(base=8e-6, hop=0.0, share=0.83, fill=0.3),
    "infiniband": Curve(base=17e-6, hop=0.0, share=0.8, fill=0.6),
    "efa": Curve(base=35e-6, hop=0.0, share=0.8, fill=0.6),
}


# Output


def shown(point: Point) -> bool:
    """Whether a point is one the law is meant for: not sums of int8, nor NVLink's switches turned off."""
    off = point.dtype == "ring" and point.op == "all_reduce" and class_of(point) != "nvlink3-a100"
    return point.dtype != "int8" and not off


def with_errors(fitted: Sequence[LinkClass], points: Sequence[Point]) -> list[LinkClass]:
    """Return the classes with the errors of what they were fitted to."""
    result = []
    for one in fitted:
        mine = [p for p in points if (outer_of(p) if one.outer else class_of(p)) == one.name]
        mine = [p for p in mine if len(p.degrees) == 1 + one.outer]
        mine = [p for p in mine if shown(p) and "1440" not in p.system]
        errors = everywhere(fitted, mine) / np.array([point.seconds for point in mine]) - 1.0
        middle, high = np.quantile(np.abs(errors), (0.5, 0.9))
        result.append(
            attrs.evolve(one, median_error=round(float(middle), 3), p90_error=round(float(high), 3))
        )
    return result


def toml(classes: Sequence[LinkClass]) -> str:
    """Return the text of links.toml."""
    lines = [
        "# How network tiers move data in practice, by class of interconnect: constants of the law in",
        "# scalewall.cost.transport. Written by scripts/fit_collectives.py; seconds and shares.",
    ]
    for one in classes:
        lines += ["", "[[classes]]", f'name = "{one.name}"']
        lines += [f"names = [{', '.join(f'{chr(34)}{n}{chr(34)}' for n in one.names)}]"] if one.names else []
        lines += ["outer = true"] if one.outer else []
        lines += [f'source = "{one.source}"']
        if one.median_error is not None:
            lines += [f"median_error = {one.median_error:g}", f"p90_error = {one.p90_error:g}"]
        for op in ("all_reduce", "in_switch", "all_gather", "reduce_scatter", "all_to_all", "send"):
            found = getattr(one, op)
            if found is not None:
                values = [f"base = {found.base:.3g}, hop = {found.hop:.3g}"]
                values += [f"level = {found.level:.4g}"] if np.isfinite(found.level) else []
                values += [f"share = {found.share:.3f}, fill = {found.fill:.2f}"]
                values += [f"own = {found.own:.2f}"] if found.own else []
                lines.append(f"{op} = {{ {', '.join(values)} }}")
    return "\n".join(lines) + "\n"


SAMPLED = ("a100_sxm", "h100_sxm", "b200_sxm", "gb200")


def write_sample(points: Sequence[Point]) -> None:
    """Write some of the measurements, for the tests: every third power of two, and what spans nodes."""
    with SAMPLE.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["inner", "outer", "system", "collective", "members", "bandwidths", "bytes", "seconds"])
        for point in points:
            exponent = round(math.log2(point.size))
            outer = outer_of(point) if len(point.degrees) == 2 else ""
            if outer:
                keep = "1440" not in point.system and not point.reduced
                keep = keep and (exponent % 3 == 0 or not point.system.endswith(("2xp4de", "2xp5", "efa")))
            else:
                keep = point.system in SAMPLED and point.dtype == "half" and exponent % 3 == 0
                keep = keep or point.degrees == (72,)
            if keep:
                members, bandwidths = (
                    "x".join(map(str, point.degrees)),
                    " ".join(f"{b:g}" for b in point.bandwidths),
                )
                row = [class_of(point), outer, point.system, point.op, members, bandwidths]
                out.writerow([*row, f"{point.size:.0f}", f"{point.seconds:.4g}"])


def show_errors(classes: Sequence[LinkClass], points: Sequence[Point]) -> None:
    """Print the errors by system, collective and members: all sizes, and those from 1 MiB with their sign."""
    kept = [point for point in points if shown(point)]
    errors = everywhere(classes, kept) / np.array([point.seconds for point in kept]) - 1.0
    groups: dict[tuple[str, str, tuple[int, ...]], list[tuple[float, float]]] = defaultdict(list)
    for point, error in zip(kept, errors, strict=True):
        groups[point.system, point.op, point.degrees].append((point.size, float(error)))
    head = f"{'system':30}{'collective':16}{'members':>9}{'n':>5}{'median':>8}{'p90':>6}"
    print(head + f"{'>= 1 MiB':>10}{'p90':>6}{'bias':>6}")
    for (system, op, degrees), found in sorted(groups.items()):
        size, error = np.array(found).T
        text = f"{system:30}{op:16}{'x'.join(map(str, degrees)):>9}{len(found):5}"
        text += f"{np.median(np.abs(error)):8.1%}{np.quantile(np.abs(error), 0.9):6.0%}"
        long = error[size >= 2.0**20]
        if len(long):
            text += (
                f"{np.median(np.abs(long)):10.1%}{np.quantile(np.abs(long), 0.9):6.0%}{np.median(long):+6.0%}"
            )
        print(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
