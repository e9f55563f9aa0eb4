"""Our figures for claims about the knee, the wall and the strategies before them: found by pricing runs."""

from __future__ import annotations

import math
from collections.abc import Iterable

import attrs

from scalewall.cost import collective
from scalewall.strategy.search import search
from scalewall.strategy.space import Space, Strategy
from scalewall.study import closed_form
from scalewall.study.boundary import find_wall
from scalewall.study.claim_bench import Bench, Finding, figure
from scalewall.study.points import GROUPS, question
from scalewall.study.scenario import scenario

UNDERTRAINED = 10.0
_ALONE = {
    "data": Space(pp=(1,), tp_model=(1,), tp_ff=(1,)),
    "pipeline": Space(dp=(1,), tp_model=(1,), tp_ff=(1,)),
    "tensor": Space(dp=(1,), pp=(1,)),
}
_WITHOUT = {
    "data": Space(dp=(1,)),
    "pipeline": Space(pp=(1,)),
    "tensor": Space(tp_model=(1,), tp_ff=(1,)),
}
_BALANCE_FLOP, _BALANCE_DEVICES = 5e25, 2**15
_SMALL_FLOP, _SMALL_DEVICES = 1e23, 64
_GTX, _GTX_UTILISATION, _GTX_LAUNCH_PRICE = "gtx-580", 0.8, 499.0


# The knee


@figure
def knee(bench: Bench) -> Finding:
    """Training compute of the device's first point below the threshold, in the paper's space."""
    exact = bench.searched_knee
    more = "there is no knee" if exact is None else f"it lies at {exact:.3g}"
    note = f"In the paper's space. Where all strategies and cluster sizes are searched, {more}."
    return Finding(bench.curve().knee.training_flop, note)


@figure
def knee_parameters(bench: Bench) -> Finding:
    """Parameters of the model at the knee."""
    implied = _parameters(bench.claimed("knee"))
    digits = _flop(bench.claimed("knee-params"))
    note = (
        f"By 20 tokens a parameter the claimed knee of {bench.claimed('knee'):.0e} FLOP means {implied:.3g} "
        f"parameters, and the claimed parameters {digits:.2g} FLOP."
    )
    return Finding(bench.curve().knee.workload.parameters, note, implied)


@figure
def paper_knee(bench: Bench) -> Finding:
    """The knee again, for the paper's abstract."""
    return Finding(bench.curve().knee.training_flop, "The knee in the paper's space.")


@figure
def digest_knee(bench: Bench) -> Finding:
    """The knee again, for the digest."""
    note = f"Contradicts the article that it sums up, which says {bench.claimed('knee'):.0e}."
    return Finding(bench.curve().knee.training_flop, note)


@figure
def distance(bench: Bench) -> Finding:
    """The knee over the largest run that the article knows."""
    implied = bench.claimed("knee") / bench.claimed("current-largest")
    note = (
        f"The article's own {bench.claimed('current-largest'):.0e} and {bench.claimed('knee'):.0e} "
        f"are {implied:.0f}x apart."
    )
    return Finding(bench.curve().knee.training_flop / bench.claimed("current-largest"), note, implied)


@figure
def digest_distance(bench: Bench) -> Finding:
    """The knee over the largest known run, against what the digest's own knee gives."""
    implied = bench.claimed("digest-knee") / bench.claimed("current-largest")
    note = (
        f"The digest's own limit of {bench.claimed('digest-knee'):.0e} is {implied:.0f}x above "
        f"{bench.claimed('current-largest'):.0e}."
    )
    return Finding(bench.curve().knee.training_flop / bench.claimed("current-largest"), note, implied)


@figure
def years(bench: Bench) -> Finding:
    """Years from the largest known run to the knee, at the geometric mean of the claimed growth."""
    implied, _ = _years(bench, bench.claimed("knee"))
    value, spread = _years(bench, bench.curve().knee.training_flop)
    note = f"{spread}. From the article's own figures it takes {_years(bench, bench.claimed('knee'))[1]}."
    return Finding(value, note, implied)


@figure
def digest_years(bench: Bench) -> Finding:
    """Years to the knee, against what the digest's own knee gives."""
    implied, own = _years(bench, bench.claimed("digest-knee"))
    value, spread = _years(bench, bench.curve().knee.training_flop)
    note = (
        f"{spread}. To the digest's own {bench.claimed('digest-knee'):.0e} it takes {own}, "
        "but that contradicts the article."
    )
    return Finding(value, note, implied)


def _years(bench: Bench, flop: float) -> tuple[float, str]:
    """Return the years until runs reach `flop`, and the range that the claimed growth leaves."""
    factor = flop / bench.claimed("current-largest")
    slow, fast = bench.claims("growth-rate")
    by = [math.log(factor) / math.log(rate) for rate in (fast, math.sqrt(slow * fast), slow)]
    return by[1], f"{by[0]:.1f} to {by[2]:.1f} years at {slow:g}x to {fast:g}x a year"


@figure
def a100_over_h100(bench: Bench) -> Finding:
    """The A100's knee over the device's, in the paper's space."""
    other = bench.curve(bench.entry("a100-40gb-sxm", bench.preset)).knee.training_flop
    own = bench.curve().knee.training_flop
    return Finding(other / own, f"{other:.3g} against {own:.3g} FLOP, both in the paper's space.")


@figure
def zhang_knee(bench: Bench) -> Finding:
    """The knee under the batch law of Zhang et al."""
    return Finding(bench.curve(batch_law="zhang-2024").knee.training_flop, "In the paper's space.")


@figure
def zhang_orders(bench: Bench) -> Finding:
    """Orders of magnitude between the knees of the two batch laws."""
    factor = bench.curve(batch_law="zhang-2024").knee.training_flop / bench.curve().knee.training_flop
    return Finding(math.log10(factor), f"A factor of {factor:.0f}.")


@figure
def digest_batch(bench: Bench) -> Finding:
    """The knee under the batch law of Zhang et al., for the digest."""
    note = f"Contradicts the article that it sums up, which says {bench.claimed('zhang-knee'):.0e}."
    return Finding(bench.curve(batch_law="zhang-2024").knee.training_flop, note)


# The wall


@figure
def wall(bench: Bench) -> Finding:
    """The closed form's wall with the device's latencies: a kernel's start, an all-reduce over all tiers."""
    tiers = bench.device.tiers
    latency = bench.device.device.kernel_latency
    latency += float(collective.all_reduce_latency(tiers, [2.0] * len(tiers)))
    found = closed_form.wall(latency=latency).training_flop
    note = (
        f"Closed form at {1e6 * latency:.3g} us. By search the wall is at "
        f"{bench.curve().wall.training_flop:.3g} in the paper's space, "
        f"{bench.searched_wall:.3g} in the whole one."
    )
    return Finding(found, note)


@figure
def paper_wall(bench: Bench) -> Finding:
    """The last point of the paper's grid that ends in time."""
    point = bench.curve().wall
    return Finding(
        point.training_flop, f"The last run of its grid that ends in time; its MFU is {point.mfu:.1%}."
    )


@figure
def digest_wall(bench: Bench) -> Finding:
    """The closed form's wall, for the digest."""
    note = f"Contradicts the article that it sums up, which says {bench.claimed('wall'):.0e}."
    return Finding(wall(bench).value, note)


@figure
def wall_mainline(bench: Bench) -> Finding:
    """Of four readings of the wall the one nearest to the claim: dense or sparse, any MFU or 5%."""
    readings = {
        f"{kind}, {words}": bench.curve(sparse=sparse).last_above(mfu).training_flop
        for kind, sparse in (("dense", False), ("sparse", True))
        for words, mfu in (("any MFU", 0.0), ("MFU of 5% or more", 0.05))
    }
    claimed = bench.claimed("wall-mainline")
    nearest = min(readings, key=lambda name: abs(math.log(readings[name] / claimed)))
    listed = "; ".join(f"{name} {flop:.3g}" for name, flop in readings.items())
    return Finding(readings[nearest], f"Nearest: {nearest}. All, in the paper's space: {listed}.")


@figure
def undertraining(bench: Bench) -> Finding:
    """By what factors knee and wall move out at half the tokens a parameter."""
    usual, fewer = bench.curve(), bench.curve(tokens_per_parameter=UNDERTRAINED)
    value = (
        fewer.knee.training_flop / usual.knee.training_flop,
        fewer.wall.training_flop / usual.wall.training_flop,
    )
    return Finding(value, "In the paper's space.")


@figure
def constant_depth(bench: Bench) -> Finding:
    """Orders of magnitude by which 128 blocks at any size push the wall out, by search."""
    deep = find_wall(scenario(depth_law="constant"), bench.device).training_flop
    note = f"From {bench.searched_wall:.3g} to {deep:.3g} FLOP with 128 blocks, all strategies searched."
    return Finding(math.log10(deep / bench.searched_wall), note)


@figure
def ten_times(bench: Bench) -> Finding:
    """By what factors knee and wall move out with tenfold bandwidths and a tenth of the latencies."""
    usual, faster = bench.curve(), bench.curve(bench.faster)
    value = (
        faster.knee.training_flop / usual.knee.training_flop,
        faster.wall.training_flop / usual.wall.training_flop,
    )
    note = (
        f"To {faster.knee.training_flop:.3g} and {faster.wall.training_flop:.3g} FLOP in the paper's space."
    )
    return Finding(value, note)


# Runs before the limits


@figure
def latency_share(bench: Bench) -> Finding:
    """Share of a step that latency and the pipeline's bubble take, of the grid's run nearest to 5e25 FLOP."""
    point = bench.curve().nearest(bench.claimed("current-largest"))
    share = sum(point.seconds_by_cause[cause] for cause in GROUPS["latency"]) / point.step_seconds
    return Finding(share, f"At {point.training_flop:.3g} FLOP, bubble included.")


@figure
def weights_in_cache(bench: Bench) -> Finding:
    """The least bytes of weights a device of any best run, over the capacity of its outermost cache."""
    caches = bench.device.device.caches
    if not caches:
        return Finding(None, "The device's caches are not known.")
    held = {p.training_flop: _weights(p.workload.parameters, p.strategy) for p in bench.curve()}
    size = caches[0].total_capacity
    fitting = [flop for flop, weights in held.items() if weights <= size]
    all_levels = sum(cache.total_capacity for cache in caches[:2])
    note = (
        f"The best runs of the paper's curve that fit {caches[0].name}: {_listed(fitting)} FLOP; with "
        f"registers counted too: {_listed(flop for flop, w in held.items() if w <= all_levels)}. "
        "None of them was chosen for it."
    )
    return Finding(min(held.values()) / size, note)


def _weights(parameters: float, strategy: Strategy) -> float:
    parts = strategy.tp_model * strategy.tp_ff * strategy.pp * strategy.ep
    return 2.0 * parameters / parts


def _listed(flops: Iterable[float]) -> str:
    return ", ".join(f"{flop:.2g}" for flop in flops) or "none"


@figure
def balance(bench: Bench) -> Finding:
    """How much slower a fixed cluster is without the kind of parallelism that it misses least."""
    large, small = (_BALANCE_FLOP, _BALANCE_DEVICES), (_SMALL_FLOP, _SMALL_DEVICES)
    best, how = _fastest(bench, *large, Space())
    if not math.isfinite(best):
        return Finding(None, f"No strategy fits {large[1]:,} devices.")
    without = {kind: _fastest(bench, *large, space)[0] for kind, space in _WITHOUT.items()}
    told = [f"{large[0]:.0e} FLOP on {large[1]:,} devices: data x pipeline x tensor {how} is best; "]
    told.append(f"{_slower('without', without, best)}; {_alone(bench, large, best)}. ")
    least, how = _fastest(bench, *small, Space())
    told.append(f"{small[0]:.0e} FLOP on {small[1]} devices: {how} is best; {_alone(bench, small, least)}.")
    return Finding(min(without.values()) / best, "".join(told))


def _alone(bench: Bench, case: tuple[float, int], best: float) -> str:
    """Return in words how much slower than `best` one kind of parallelism alone is."""
    times = {kind: _fastest(bench, *case, space)[0] for kind, space in _ALONE.items()}
    return _slower("alone", times, best)


def _fastest(bench: Bench, flop: float, devices: int, space: Space) -> tuple[float, str]:
    """Return the seconds of the fastest step on just `devices` devices, and its degrees."""
    asked = question(bench.asked, bench.device, flop)
    if asked is None:
        return math.inf, "none"
    fixed = attrs.evolve(asked, objective="time", devices=devices, duration=math.inf, space=space)
    found = search(fixed)
    best = found.best
    if best is None:
        return math.inf, "none"
    return found.scores[0], f"{best.dp} x {best.pp} x {best.tp_model * best.tp_ff}"


def _slower(word: str, times: dict[str, float], best: float) -> str:
    parts = [
        f"{word} {kind} {time / best:.2f}x" if math.isfinite(time) else f"{word} {kind} impossible"
        for kind, time in times.items()
    ]
    return ", ".join(parts)


# The GTX 580


@figure
def gtx580_run(bench: Bench) -> Finding:
    """The last run on GTX 580 before MFU falls below 80% of the peak, in the paper's space."""
    curve = bench.curve(bench.entry(_GTX))
    above = None
    for point in curve:
        if point.mfu < _GTX_UTILISATION:
            break
        above = point.training_flop
    note = (
        "80% of the peak, in the paper's space; below 80% of the sustained "
        f"{curve.cluster.device.sustained:.0%} it falls only at {curve.knee.training_flop:.2g}."
    )
    return Finding(above, note)


@figure
def gtx580_cluster(bench: Bench) -> Finding:
    """The smallest of the paper's clusters for the grid's run nearest to the one claimed."""
    point = bench.curve(bench.entry(_GTX)).nearest(bench.claimed("gtx580-run"))
    cost = point.n_devices * _GTX_LAUNCH_PRICE
    note = (
        f"For {point.training_flop:.3g} FLOP, at an MFU of {point.mfu:.0%}. At the 499 dollars that the "
        f"smaller card cost at launch that is {cost:.1e} dollars; the source says about 5e9."
    )
    return Finding(float(point.n_devices), note)


@figure
def gtx580_strategy(bench: Bench) -> Finding:
    """The best degrees of that run in the paper's space."""
    card = bench.entry(_GTX)
    point = bench.curve(card).nearest(bench.claimed("gtx580-run"))
    s = point.strategy
    dp, pp, tp = (int(degree) for degree in bench.claims("gtx580-strategy"))
    asked = question(bench.asked, card, point.training_flop)
    note = f"{s.tp_model} x {s.tp_ff} is the tensor split, in the paper's space."
    if asked is not None:
        fixed = attrs.evolve(asked, objective="time", devices=dp * pp * tp, duration=math.inf)
        times = [search(attrs.evolve(fixed, space=x)).scores for x in (Space(), Space(dp=(dp,), pp=(pp,)))]
        if all(times):
            note += (
                f" Over all strategies on {dp * pp * tp:,} cards the claimed one takes "
                f"{times[1][0] / times[0][0] - 1.0:.1%} longer than the best."
            )
    return Finding((float(s.dp), float(s.pp), float(s.tp_model * s.tp_ff)), note)


def _parameters(training_flop: float) -> float:
    """Return the parameters of a compute-optimal dense model: ``C = 6 · 20 · N²``."""
    return math.sqrt(training_flop / 120.0)


def _flop(parameters: float) -> float:
    return 120.0 * parameters**2
