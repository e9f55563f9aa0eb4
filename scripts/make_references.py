"""Make docs/references.bib from src/scalewall/data/sources.toml, where the literature is kept once.

python scripts/make_references.py
"""

import sys
from pathlib import Path

from scalewall.study.citations import references

TARGET = Path(__file__).resolve().parents[1] / "docs" / "references.bib"


def main() -> int:
    """Write the file, and say how many entries it has."""
    entries = [reference.bibtex for reference in references()]
    TARGET.write_text("\n\n".join(entries) + "\n", encoding="utf-8")
    print(f"{len(entries)} entries: {TARGET.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
