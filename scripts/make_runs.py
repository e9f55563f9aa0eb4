"""Make src/scalewall/data/runs.csv.gz, the measured runs that ship, from a fuller table of runs.

    python scripts/make_runs.py RUNS.csv

RUNS.csv has the columns of `study.runs`, and more. Kept are the rows with a step time or TFLOP/s, and of them
what is read, or says where it is from; values are copied as they stand. The same table gives the same file,
byte for byte.
"""

import csv
import gzip
import io
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "src" / "scalewall" / "data" / "runs.csv.gz"
COLUMNS = (
    *(
        "id",
        "source",
        "citation",
        "model",
        "n_params",
        "n_layers",
        "d_model",
        "n_heads",
        "n_kv_heads",
        "d_ff",
    ),
    *("vocab", "n_experts", "top_k", "seq_len", "device", "hardware", "n_gpus", "gpus_per_node"),
    *("tp", "pp", "dp", "cp", "ep", "virtual_pp", "zero_stage_or_fsdp", "micro_batch_size"),
    *("global_batch_size", "activation_recompute", "precision", "measured_metric", "measured_value"),
    *("step_time_s", "step_time_from", "notes"),
)


def is_measured(row: dict[str, str]) -> bool:
    """Return whether a row states a step time, or what gives one."""
    return bool(row["step_time_s"] or (row["measured_metric"] == "tflops_per_gpu" and row["measured_value"]))


def main(arguments: list[str]) -> int:
    """Write the table, and say how many rows it has."""
    if len(arguments) != 1:
        print("Give one argument: the path of the full table.", file=sys.stderr)
        return 2
    with Path(arguments[0]).open(newline="", encoding="utf-8-sig") as file:
        every = list(csv.DictReader(file))
    rows = sorted((row for row in every if is_measured(row)), key=lambda row: row["id"])
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    TARGET.write_bytes(gzip.compress(text.getvalue().encode("utf-8"), 9, mtime=0))
    print(f"{len(rows)} of {len(every)} runs, {TARGET.stat().st_size / 1e3:.0f} kB: {TARGET.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
