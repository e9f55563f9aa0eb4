"""Run the command line: ``python -m scalewall``."""

from scalewall.cli import main

main()
