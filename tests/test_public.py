"""The public face: exactly these names, and cheap to import."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import scalewall
from scalewall.hardware.cluster import Cluster
from scalewall.study.closed_form import Wall
from scalewall.study.limits import Limits
from scalewall.study.plan import Planning
from scalewall.study.validation import Validation
from tests.study.answers import write_quick

PUBLIC = [
    *("InputError", "InputErrors", "NoAnswer", "ScalewallError"),
    *(
        "limits",
        "load_hardware",
        "load_model",
        "open_sweep",
        "plan",
        "serve",
        "sweep",
        "to_xarray",
        "validate",
        "wall",
    ),
]
HEAVY = {"numpy", "polars", "plotly", "rich", "cyclopts", "attrs", "cattrs"}

# What each way in may cost of a processor's time, in seconds; several times what it does cost.
IMPORT_SECONDS, HELP_SECONDS = 0.6, 1.2


def modules_after(statement: str) -> tuple[set[str], float]:
    """Return the top-level packages that a new process has loaded after `statement`, and its CPU time."""
    listing = f"{statement}\nimport sys\nprint(*sorted({{n.split('.')[0] for n in sys.modules}}))"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{seconds:.2f} s: {statement}")
    return set(done.stdout.splitlines()[-1].split()), seconds


def test_the_public_names() -> None:
    assert sorted(scalewall.__all__) == PUBLIC
    for name in PUBLIC:
        assert callable(getattr(scalewall, name))  # and not hidden by a package of its name
        assert getattr(scalewall, name).__doc__


def test_every_error_is_a_scalewall_error() -> None:
    assert issubclass(scalewall.InputErrors, scalewall.InputError)
    assert issubclass(scalewall.InputError, scalewall.ScalewallError)
    assert issubclass(scalewall.InputError, ValueError)
    assert issubclass(scalewall.NoAnswer, scalewall.ScalewallError)
    assert not issubclass(scalewall.NoAnswer, scalewall.InputError)
    assert (scalewall.NoAnswer.exit_status, scalewall.InputError.exit_status) == (1, 2)


def test_an_import_loads_nothing_heavy() -> None:
    loaded, seconds = modules_after("import scalewall")
    assert "scalewall" in loaded
    assert not loaded & HEAVY
    assert seconds < IMPORT_SECONDS


@pytest.mark.parametrize("words", ["--help", "limits --help", "--version"])
def test_help_loads_nothing_that_it_does_not_show(words: str) -> None:
    loaded, seconds = modules_after(f"from scalewall.cli import run\nrun({words.split()})")
    assert "cyclopts" in loaded
    assert not loaded & {"numpy", "polars", "plotly", "cattrs"}
    assert seconds < HELP_SECONDS


def test_a_table_needs_no_plotly_and_no_polars() -> None:
    loaded, _ = modules_after("from scalewall.cli import run\nrun(['wall'])\nrun(['hardware', '--json'])")
    assert not loaded & {"polars", "plotly"}


def test_python_says_what_the_commands_say(tmp_path: Path) -> None:
    path = write_quick(tmp_path)
    answer = scalewall.limits(path, points=2, duration="3 months")
    assert isinstance(answer, Limits)
    assert [c.hardware for c in answer.curves] == ["quick"]
    assert len(answer.curves[0].points) == 2
    cluster = scalewall.load_hardware(path)
    assert isinstance(cluster, Cluster)
    assert cluster == answer.curves[0].cluster
    assert scalewall.load_hardware("h100-sxm", "epoch-2024").device.sustained == 0.7
    wall = scalewall.wall(duration="100 days")
    assert isinstance(wall, Wall)
    assert wall.parameters == pytest.approx(4e14)


def test_plans_models_and_measured_runs(tmp_path: Path) -> None:
    answer = scalewall.plan("llama-3.1-8b", "h100-sxm", gpus=8, batch=64, seq=8192, tp=2, top=3)
    assert isinstance(answer, Planning)
    assert {one.plan.tp for one in answer.strategies} == {2}
    fewest = scalewall.plan("llama-3.1-8b", "h100-sxm", batch=64, seq=8192, min_gpus=True)
    assert fewest.min_gpus == fewest.strategies[0].plan.devices
    assert scalewall.load_model("llama-3.1-8b") == answer.scenario.job.model
    path = tmp_path / "runs.csv"
    path.write_text(
        "id,device,n_gpus,tp,pp,seq_len,global_batch_size,n_layers,d_model,n_heads,step_time_s,precision\n"
        "mine-1,h100-sxm,8,1,1,4096,64,32,4096,32,3.5,bf16\n"
    )
    found = scalewall.validate(path)
    assert isinstance(found, Validation)
    assert [row.id for row in found.rows] == ["mine-1"]
    assert scalewall.validate(path, host_step=1.0).rows[0].error > found.rows[0].error


def test_python_raises_what_the_commands_complain_of() -> None:
    with pytest.raises(scalewall.InputError, match="h100-sxm"):
        scalewall.limits("h100-smx")
    with pytest.raises(scalewall.InputError, match="duration"):
        scalewall.limits(duration=0)
    with pytest.raises(scalewall.InputError):
        scalewall.load_hardware("nope")
    with pytest.raises(scalewall.InputError, match=r"llama-3\.1-8b"):
        scalewall.load_model("llama-3.1-8")
    with pytest.raises(scalewall.InputError, match="gpus"):
        scalewall.plan("llama-3.1-8b", "h100-sxm", batch=8, seq=4096)
    with pytest.raises(scalewall.InputError, match="columns"):
        scalewall.validate(__file__)
    with pytest.raises(TypeError):
        scalewall.wall(speed=3)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    scalewall.limits(write_quick(tmp_path), points=2, progress=lambda *said: told.append(said))
    assert told[-1][0] == told[-1][1] == 3


def test_the_package_is_typed_and_needs_no_particular_folder(tmp_path: Path) -> None:
    assert (Path(scalewall.__file__).parent / "py.typed").is_file()
    code = "import scalewall; print(scalewall.load_hardware('h100-sxm').name)"
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("h100-sxm\n", "")
    assert not list(tmp_path.iterdir())
