"""Make src/scalewall/data/notable_models.csv from a fuller table of models with known training compute.

    python scripts/make_notable_models.py FULL.csv

FULL.csv is Epoch AI's *Data on AI Models* (CC BY 4.0) with the columns below and a column `dataset`, which
says of which of its collections a row is. Only `notable` rows stay: the others were gathered because they are
large, so a trend fitted to them too would be bent by how they were chosen. Values are copied as they stand,
but for blanks at their ends.
"""

import csv
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "src" / "scalewall" / "data" / "notable_models.csv"
COLUMNS = (
    "name",
    "organization",
    "publication_date",
    "training_compute_flop",
    "domain",
    "confidence",
    "frontier_model",
    "link",
)


def main(arguments: list[str]) -> int:
    """Write the table, and say how many rows it has."""
    if len(arguments) != 1:
        print("Give one argument: the path of the full table.", file=sys.stderr)
        return 2
    with Path(arguments[0]).open(newline="", encoding="utf-8-sig") as file:
        every = [{key: value.strip() for key, value in row.items()} for row in csv.DictReader(file)]
    rows = [row for row in every if row["dataset"] == "notable"]
    rows.sort(key=lambda row: (row["publication_date"], row["name"]))
    with TARGET.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len(rows)} models, {TARGET.stat().st_size / 1e3:.0f} kB: {TARGET.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
