import threading
import time

import pytest

pytest.importorskip("dash", reason="the page needs scalewall[web]")

from scalewall.errors import InputError, NoAnswer
from scalewall.web import pool as pools
from scalewall.web.pool import Busy, Cancelled, Defect


def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return seconds


def wrong():
    raise InputError("duration", "a time", "x")


def broken():
    raise KeyError("a secret of the server")


def test_answers_are_kept(pool):
    assert pool.wait(pool.ask("kept", spin, 0.01, who="a", seconds=5)) == 0.01
    before = pool.done
    assert pool.wait(pool.ask("kept", spin, 0.01, who="b", seconds=5)) == 0.01
    assert pool.done == before


def test_one_question_of_two_is_computed_once(pool):
    before = pool.done
    one = pool.ask("shared", spin, 0.2, who="a", seconds=5)
    other = pool.ask("shared", spin, 0.2, who="b", seconds=5)
    assert one is other
    pool.keep_only("a", set())  # the other still waits
    assert pool.wait(other) == 0.2
    assert pool.done == before + 1


def test_what_nobody_wants_is_cancelled(pool):
    job = pool.ask("unwanted", spin, 30.0, who="a", seconds=60)
    time.sleep(0.1)
    begun = time.monotonic()
    pool.keep_only("a", {"something else"})
    with pytest.raises(Cancelled):
        pool.wait(job)
    assert time.monotonic() - begun < 5.0
    assert pool.wait(pool.ask("unwanted", spin, 0.01, who="a", seconds=5)) == 0.01


def test_time_is_bounded(pool):
    with pytest.raises(NoAnswer, match="longer than"):
        pool.wait(pool.ask("long", spin, 30.0, who="a", seconds=0.2))


def test_errors_on_purpose_come_through_and_others_tell_nothing(pool, caplog):
    with pytest.raises(InputError, match="duration"):
        pool.wait(pool.ask("wrong", wrong, who="a", seconds=5))
    with pytest.raises(Defect) as error:
        pool.wait(pool.ask("broken", broken, who="a", seconds=5))
    assert not str(error.value)


def test_the_queue_ends(pool, monkeypatch):
    monkeypatch.setattr(pools, "MOST_WAITING", 3)
    jobs, refused = [], 0
    for i in range(20):
        try:
            jobs.append(pool.ask(f"many-{i}", spin, 5.0, who="flood", seconds=10))
        except Busy:
            refused += 1
    assert refused >= 20 - 3 - 2  # three wait, and two are under way
    pool.keep_only("flood", set())
    for job in jobs:
        with pytest.raises(Cancelled):
            pool.wait(job)


def test_quick_jobs_do_not_wait_for_long_ones(pool):
    long = [pool.ask(f"slow-{i}", spin, 20.0, who="slow", seconds=30) for i in range(4)]
    begun = time.monotonic()
    assert pool.wait(pool.ask("quick", spin, 0.01, who="a", seconds=5, quick=True)) == 0.01
    assert time.monotonic() - begun < 3.0
    pool.keep_only("slow", set())
    for job in long:
        with pytest.raises(Cancelled):
            pool.wait(job)


def test_answers_kept_are_bounded(pool, monkeypatch):
    monkeypatch.setattr(pools, "MOST_KEPT", 5)
    threads = [
        threading.Thread(target=lambda i=i: pool.wait(pool.ask(f"b-{i}", spin, 0.0, who="a", seconds=5)))
        for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pool._kept) <= 5


def test_closing_cancels_what_runs_and_what_waits():
    closed = pools.Pool(1)
    jobs = [closed.ask(f"closing-{i}", spin, 600, who="a", seconds=900) for i in range(3)]
    closed.close()
    jobs.append(closed.ask("too late", spin, 600, who="a", seconds=900))
    for job in jobs:
        with pytest.raises(Cancelled):
            closed.wait(job)
