"""A sweep as a program of its own, slowed down and with a diary of what is answered; tests kill it.

Workers begin by importing this file, so what it patches is patched in them too. Arguments: the sweep's
file, its folder, the diary, the seconds that an answer takes, and the number of a scenario that kills.
"""

from __future__ import annotations

import os
import sys
import time

from scalewall.study import sweep, sweep_driver, sweep_rows, sweep_store

SOURCE, FOLDER, DIARY, SECONDS, KILLER = sys.argv[1:6]
answered = sweep_rows.row


def row(core, index, values):
    with open(DIARY, "a") as diary:
        diary.write(f"{index}\n")
    if index == int(KILLER):
        os._exit(9)
    time.sleep(float(SECONDS))
    return answered(core, index, values)


sweep_rows.row = row
sweep_driver._FLUSH_SECONDS = 0.05  # much is written and merged, so that much can be interrupted
sweep_driver.BATCH_SECONDS = 0.03
sweep_store._MERGED = 4

if __name__ == "__main__":
    print(sweep.sweep(SOURCE, FOLDER, workers=2).computed)
