"""plan, validate and models on the command line: documents, tables, files, and one line a fault."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scalewall.cli import run
from scalewall.cost.training import TRAINING_CAUSES
from scalewall.cost.training_memory import MEMORY_ITEMS
from scalewall.study.run_table import SHIPPED, read_table

Capture = pytest.CaptureFixture[str]

LLAMA = "plan llama-3.1-8b --hardware h100-sxm --gpus 16 --batch 64 --seq 8192"
GIVEN = f"{LLAMA} --tp 2 --pp 2 --dp 4 --vpp 2 --micro-batch 1 --zero 1 --recompute full --top 1"
HEADER = "id,device,n_gpus,tp,pp,seq_len,global_batch_size,n_layers,d_model,n_heads,step_time_s,precision"
ROW = "mine-1,h100-sxm,8,1,1,4096,64,32,4096,32,3.5,bf16"

STRATEGY = {
    *("tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "zero", "shard", "recompute", "schedule"),
    *("step_time_s", "mfu", "hfu", "tokens_per_s_per_device", "seconds_by_cause", "memory_bytes"),
    *("memory_total_bytes", "memory_capacity_bytes", "worst_stage", "fits", "binds", "run"),
}
PLAN = {
    *("model", "parameters", "hardware", "gpus", "batch", "seq", "precision", "software"),
    *("priced", "fitting", "strategies", "free", "remedies", "differences", "min_gpus"),
}


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def document(line: str, capsys: Capture) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    assert run([*line.split(), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found: dict[str, Any] = json.loads(out, parse_constant=refuse)
    return found


def table(line: str, capsys: Capture) -> str:
    assert run(line.split()) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "…" not in out
    assert "Traceback" not in out
    return out


def complaint(line: str, capsys: Capture, status: int = 2) -> str:
    assert run(line.split()) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    return err


# plan


@pytest.mark.parametrize(
    ("tables", "name", "scale", "line"),
    [
        ("memory = '141 GB'", "h100", 1.0, "Kernels: curves measured on h100. Network: nvlink4-hopper, inf"),
        ("sustained = 0.4015", "h100", 0.5, "Kernels: curves measured on h100 at 0.5 times their effic"),
        ("curves = 'generic'", "generic", 0.803 / 0.8005, "Kernels: not measured, generic curves. Network"),
        ("curves = 'v100'", "v100", 0.803 / 0.898, "Kernels: curves measured on v100 at 0.894 times their"),
    ],
)
def test_a_plan_says_which_curves_it_rests_on(
    tables: str, name: str, scale: float, line: str, capsys: Capture
) -> None:
    Path("mine.toml").write_text(f"base = 'h100-sxm'\n[device]\n{tables}\n", encoding="utf-8")
    asked = GIVEN.replace("h100-sxm", "mine.toml")
    found = document(asked, capsys)
    assert (found["curves"]["class"], found["curves"]["measured"]) == (name, name != "generic")
    assert found["curves"]["scale"] == pytest.approx(scale)
    assert [tier["class"] for tier in found["curves"]["network"]] == ["nvlink4-hopper", "infiniband"]
    assert line in table(asked, capsys)


@pytest.mark.parametrize(
    ("line", "slower"),
    [
        ("memory = '81 GB'", 1.0),
        ("sustained = 0.6", 1.05),
        ("peak.bf16 = '800 TFLOP/s'", 1.05),
        ("memory_bandwidth = '2 TB/s'", 1.01),
    ],
)
def test_what_a_file_lays_over_a_device_tells(line: str, slower: float, capsys: Capture) -> None:
    Path("mine.toml").write_text(f"base = 'h100-sxm'\n[device]\n{line}\n", encoding="utf-8")
    mine, usual = (document(GIVEN.replace("h100-sxm", name), capsys) for name in ("mine.toml", "h100-sxm"))
    ratio = mine["strategies"][0]["step_time_s"] / usual["strategies"][0]["step_time_s"]
    assert ratio == 1.0 if slower == 1.0 else ratio > slower


def test_what_has_no_end_is_null_in_a_document(capsys: Capture) -> None:
    tables = "base = 'h100-sxm'\n[device]\nmemory = inf\npower = inf\n"
    Path("mine.toml").write_text(tables, encoding="utf-8")
    (one,) = document(f"{GIVEN.replace('h100-sxm', 'mine.toml')} --tokens 1e12", capsys)["strategies"]
    assert one["memory_capacity_bytes"] is one["run"]["energy_j"] is None
    assert one["fits"]


def test_the_document_of_a_plan(capsys: Capture) -> None:
    found = document(f"{LLAMA} --top 3 --tokens 1e12 --price 2", capsys)
    assert set(found) >= PLAN
    assert len(found["strategies"]) == 3
    for one in found["strategies"]:
        assert set(one) >= STRATEGY
        assert one["tp"] * one["pp"] * one["dp"] * one["cp"] * one["ep"] == 16
        assert set(one["recompute"]) == {"share", "layers", "selective"}
        assert set(one["seconds_by_cause"]) == set(TRAINING_CAUSES)
        assert set(one["memory_bytes"]) == set(MEMORY_ITEMS)
        assert sum(one["seconds_by_cause"].values()) == pytest.approx(one["step_time_s"])
        assert sum(one["memory_bytes"].values()) == pytest.approx(one["memory_total_bytes"])
        assert one["memory_capacity_bytes"] == 80e9
        assert one["worst_stage"] in {"first", "second", "last"}
        assert one["run"]["cost_usd"] == pytest.approx(2 * one["run"]["device_hours"])
    assert found["parameters"] == 8030261248
    assert found["free"] is None
    assert found["differences"] is None


def test_the_document_of_a_given_strategy(capsys: Capture) -> None:
    found = document(GIVEN, capsys)
    (one,) = found["strategies"]
    degrees = {name: one[name] for name in ("tp", "pp", "dp", "cp", "vpp", "micro_batch", "zero")}
    assert degrees == {"tp": 2, "pp": 2, "dp": 4, "cp": 1, "vpp": 2, "micro_batch": 1, "zero": 1}
    assert one["recompute"] == {"share": 1.0, "layers": 16, "selective": False}
    assert one["run"] is None
    gain = one["step_time_s"] - found["free"]["step_time_s"]
    assert gain > 0
    assert sum(found["differences"].values()) == pytest.approx(gain)


def test_a_plan_as_tables(capsys: Capture) -> None:
    text = table(f"{LLAMA} --tokens 1e12 --price 2", capsys)
    for said in (
        "8,030,261,248 parameters",
        "strategies priced",
        "kernel efficiency",
        "activations",
        "Binds:",
    ):
        assert said in text
    assert "USD" in text
    assert "With nothing fixed" not in text
    text = table(GIVEN, capsys)
    assert "With nothing fixed: tp" in text
    assert "16 of 16 layers" in text
    assert "recomputation" in text.split("Where it gains")[1]


def test_a_plan_that_does_not_fit_says_what_would(capsys: Capture) -> None:
    line = "plan gpt3-175b --hardware a100-80gb-sxm --gpus 64 --batch 64 --seq 2048 --tp 8 --pp 1 --zero 1"
    found = document(line, capsys)
    assert not found["strategies"][0]["fits"]
    assert found["fitting"] == 0
    assert found["remedies"]
    text = table(line, capsys)
    assert "does not fit" in text
    assert found["remedies"][0] in text


def test_the_fewest_devices(capsys: Capture) -> None:
    line = "plan llama-3.1-70b --hardware h100-sxm --batch 64 --seq 8192 --min-gpus --top 1"
    found = document(line, capsys)
    assert found["min_gpus"] == found["gpus"]
    assert found["strategies"][0]["fits"]
    assert f"Fewest devices that fit: {found['min_gpus']}" in table(line, capsys)
    assert document(f"{LLAMA} --top 1", capsys)["min_gpus"] is None


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_plan_as_a_file(ending: str, capsys: Capture) -> None:
    table(f"{LLAMA} --top 2 -o out.{ending}", capsys)
    path = Path(f"out.{ending}")
    if ending == "csv":
        frame = pl.read_csv(path, comment_prefix="#")
        inside = json.loads(path.read_text().splitlines()[0].removeprefix("#"))
    else:
        frame = pl.read_parquet(path)
        inside = json.loads(pl.read_parquet_metadata(path)["scalewall"])
    assert frame.height == 2
    assert {"tp", "step_time_s", "optimizer_s", "weights_bytes", "recompute_share"} <= set(frame.columns)
    assert inside["scenario"]["model"] == "llama-3.1-8b"


def test_a_plan_as_a_figure(capsys: Capture) -> None:
    table(f"{GIVEN} --figure out.html", capsys)
    text = Path("out.html").read_text(encoding="utf-8")
    assert "From peak to MFU" in text
    assert len(text) < 6_000_000


def test_a_scenario_file_and_constants(capsys: Capture) -> None:
    Path("run.toml").write_text(
        'model = "llama-3.1-8b"\nhardware = "h100-sxm"\ngpus = 16\nbatch = 64\nseq = 8192\ntop = 1\ntp = 2\n'
    )
    found = document("plan --scenario run.toml", capsys)
    assert [one["tp"] for one in found["strategies"]] == [2]
    slower = document("plan --scenario run.toml --tp 4 --set host_step=1s --set framework=4GB", capsys)
    assert [one["tp"] for one in slower["strategies"]] == [4]
    assert slower["scenario"]["practice"]["host_step"] == 1.0
    assert slower["scenario"]["allowance"]["framework"] == 4e9


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("plan", "model"),
        ("plan llama-3.1-8b", "hardware"),
        ("plan nope --hardware h100-sxm --gpus 8 --batch 8 --seq 4096", "'model' must be"),
        (f"{LLAMA} --tp 3", "a divisor of the model's 32 heads"),
        (f"{LLAMA} --ep 2", "'--ep' must be 1, as models with experts are not priced yet"),
        (f"{LLAMA} --tp 2 --pp 2 --dp 2", "dp 4 would do"),
        (f"{LLAMA} --tp 2 --pp 1 --cp 1 --micro-batch 16", "'--batch' must be a multiple of dp x micro"),
        (f"{LLAMA} --precision fp4", "one that h100-sxm has: bf16, fp16, fp8, fp8-block. Got"),
        (f"{LLAMA} --set mattmul=1", "matmul"),
        (f"{LLAMA} --set file=1", "'file' must be a word of plan"),
        ("validate --set runs=1", "'--set' must be of a constant. Got 'runs'"),
        ("validate --set progress=1", "'--set' must be of a constant. Got 'progress'"),
        (f"{LLAMA} --set matmul", "NAME=VALUE"),
        (f"{LLAMA} --set matmul=0.5 --set matmul=0.6", "'--set' must be given once for matmul"),
        (f"{LLAMA} --tp 4 --set tp=2", "of what no option says, and one says tp"),
        (f"{LLAMA} --price 2", "'--price' must be left out without tokens"),
        (f"{LLAMA} --min-gpus", "'--gpus' must be left out with --min-gpus"),
        (f"{LLAMA} --dp 16 --zero 0 --shard 8", "'--shard' must be left out with ZeRO stage 0"),
        (f"{LLAMA} --scenario nope.toml", "readable TOML"),
        (f"{LLAMA} -o out.xls", ".parquet"),
        (f"{LLAMA} --figure nowhere/out.html", "a folder that exists"),
        (f"{LLAMA} --top 0", "'--top' must be"),
        (f"{LLAMA} --tokens many", "'--tokens' must be"),
        ("plan config.json --hardware h100-sxm --gpus 8 --batch 8 --seq 4096", "There is no such file"),
    ],
)
def test_one_line_for_what_is_wrong(line: str, says: str, capsys: Capture) -> None:
    capsys.readouterr()
    assert run(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert "Traceback" not in err
    assert all(text.startswith("The '") for text in err.splitlines())


def test_what_is_wrong_is_called_as_it_was_written(capsys: Capture) -> None:
    words = 'model = "llama-3.1-8b"\nhardware = "h100-sxm"\ngpus = 8\nbatch = 64\nseq = 8192\n'
    Path("run.toml").write_text(f"{words}micro_batch = 0\n", encoding="utf-8")
    assert "The 'micro_batch' must be" in complaint("plan --scenario run.toml", capsys)
    assert "The '--micro-batch' must be" in complaint("plan --scenario run.toml --micro-batch 0", capsys)
    assert "The '--micro-batch' must be" in complaint("plan --scenario run.toml --micro-batch=0", capsys)
    assert "The 'micro_batch' must be" in complaint("plan --scenario run.toml --set micro_batch=0", capsys)
    for option in ("-o", "--output"):
        assert f"The '{option}' must be" in complaint(f"plan --scenario run.toml {option} x.xls", capsys)


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ("prise = 2", "'prise' must be absent or a known field. Got 'prise' instead. Nearest: price"),
        ("experts = 8", "'experts' must be absent"),
        ("ep = 8", "'ep' must be 1"),
        ("matmul = 0.5", "'matmul' must be absent"),
        ("practice = 5", "'practice' must be a table"),
        ("[practice]\nexperts = 1", "'practice.experts' must be absent"),
        ("[uncertain]\nfill = 1", "'uncertain' must be absent"),
    ],
)
def test_a_file_says_no_word_in_vain(tables: str, says: str, capsys: Capture) -> None:
    words = 'model = "llama-3.1-8b"\nhardware = "h100-sxm"\ngpus = 8\nbatch = 64\nseq = 8192\n'
    Path("run.toml").write_text(f"{words}{tables}\n", encoding="utf-8")
    assert says in complaint("plan --scenario run.toml --set host_step=1s", capsys)


def test_no_answer_is_status_one(capsys: Capture) -> None:
    line = "plan gpt3-175b --hardware h100-sxm --gpus 8 --batch 64 --seq 2048"
    assert "What would do: " in complaint(line, capsys, 1)
    line = "plan llama-3.1-8b --hardware h100-sxm --gpus 8 --batch 8 --seq 1048576"
    assert "sequences of 524,288 tokens" in complaint(line, capsys, 1)


# validate


def test_the_document_of_a_validation(capsys: Capture) -> None:
    Path("runs.csv").write_text(f"{HEADER}\n{ROW}\nmine-2,h100-sxm,8,1,1,4096,64,32,4096,,3.5,bf16\n")
    found = document("validate --runs runs.csv", capsys)
    (row,) = found["rows"]
    assert {"id", "measured_step_time_s", "predicted_step_time_s", "error"} <= set(row)
    assert row["error"] == pytest.approx(row["predicted_step_time_s"] / 3.5 - 1)
    assert row["searched"] == ["micro_batch", "recompute"]
    assert found["skipped"] == [{"id": "mine-2", "reason": "does not state n_heads"}]
    summary = found["summary"]
    assert (summary["n"], summary["skipped"]) == (1, 1)
    assert summary["median_abs_error"] == summary["p90_abs_error"] == pytest.approx(abs(row["error"]))
    assert set(summary["by_source"]) == {"mine"}
    assert set(summary["by_device"]) == {"h100-sxm"}
    assert found["credit"] is None


def test_the_runs_that_ship(capsys: Capture) -> None:
    found = document("validate", capsys)
    summary = found["summary"]
    assert summary["n"] > 550
    assert summary["n"] + summary["skipped"] == len(read_table(SHIPPED))
    assert summary["median_abs_error"] < 0.08
    assert summary["p90_abs_error"] < 0.2
    assert "not verified by MLCommons" in found["credit"]


def test_a_validation_as_tables_and_files(capsys: Capture) -> None:
    with gzip.open(SHIPPED, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    some = [row for row in rows if row["id"].startswith(("mlperf", "llama3", "mtnlg"))]
    with Path("some.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, some[0])
        writer.writeheader()
        writer.writerows(some)
    text = table("validate --runs some.csv --rows -o out.csv --figure out.html", capsys)
    for said in ("llama3-001", "searched: micro-batch", "median absolute error", "not verified by MLCommons"):
        assert said in text
    assert "no interleaving" not in text.split("llama3-001")[1].splitlines()[0]
    frame = pl.read_csv("out.csv", comment_prefix="#")
    assert {"id", "error", "predicted_step_time_s", "optimizer_s", "settled"} <= set(frame.columns)
    page = Path("out.html").read_text(encoding="utf-8")
    assert "not verified" in page
    assert "predicted against measured" in page


def test_rows_that_say_nothing_are_no_fault(capsys: Capture) -> None:
    Path("runs.csv").write_text(f"{HEADER}\n{ROW.replace('3.5', '')}\n")
    assert "No run says enough" in table("validate --runs runs.csv", capsys)
    assert document("validate --runs runs.csv", capsys)["summary"]["n"] == 0
    table("validate --runs runs.csv --figure out.html", capsys)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "It is empty"),
        (b"\n \n", "It is empty"),
        (bytes(range(256)), "not UTF-8"),
        (b"id,device\n\x00,1\n", "no text"),
        (b"\x1f\x8b\x08nothing", "cannot be unpacked"),
        (b"id,device\n1,2\n", "with the columns n_gpus, tp, pp"),
        (HEADER.replace(",step_time_s", "").encode() + b"\n1\n", "with the columns step_time_s"),
        (HEADER.encode() + b"\n", "at least one row"),
        (HEADER.encode() + b"\n" + b"a" * 200_000 + b"\n", "field"),
    ],
)
def test_a_file_that_is_no_table_of_runs(content: bytes, says: str, capsys: Capture) -> None:
    Path("runs.csv").write_bytes(content)
    assert says in complaint("validate --runs runs.csv", capsys)


def test_other_faults_of_a_validation(capsys: Capture) -> None:
    assert "No such file" in complaint("validate --runs nope.csv", capsys)
    Path("folder.csv").mkdir()
    assert "directory" in complaint("validate --runs folder.csv", capsys)
    assert "'--set' must be of a constant" in complaint("validate --set nothing=1", capsys)
    assert "'matmul' must be" in complaint("validate --set matmul=fast", capsys)
    assert ".parquet" in complaint("validate -o out.txt", capsys)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n_gpus": "0"}, "its n_gpus is 0, not a whole number from 1 to 1,000,000,000"),
        ({"tp": "two"}, "its tp is 'two', not a whole number"),
        ({"tp": "1.5"}, "its tp is 1.5, not a whole number"),
        ({"n_layers": "1e9"}, "its n_layers is 1e+09, not a whole number from 1 to 10,000"),
        ({"step_time_s": "nan"}, "its step_time_s is nan, not a number above 0"),
        ({"step_time_s": "-1"}, "its step_time_s is -1, not a number above 0"),
        ({"tp": "8", "n_heads": "36", "d_model": "4608"}, "its tp of 8 does not divide 36 heads"),
        ({"pp": "8", "n_layers": "4"}, "has 4 layers for 8 chunks of a pipeline"),
        ({"n_heads": "5"}, "5 heads do not divide d_model 4096"),
        ({"device": "abacus"}, "device abacus is not in the catalogue"),
    ],
)
def test_a_row_that_cannot_be_is_skipped_with_the_reason(
    changes: dict[str, str], reason: str, capsys: Capture
) -> None:
    cells = dict(zip(HEADER.split(","), ROW.split(","), strict=True)) | changes
    Path("runs.csv").write_text(f"{HEADER}\n{','.join(cells.values())}\n{ROW.replace('mine-1', 'good-1')}\n")
    found = document("validate --runs runs.csv", capsys)
    assert [row["id"] for row in found["rows"]] == ["good-1"]
    (skipped,) = found["skipped"]
    assert skipped["id"] == "mine-1"
    assert reason in skipped["reason"]


def test_cells_of_several_lines_and_rows_without_a_name(capsys: Capture) -> None:
    Path("runs.csv").write_text(f'{HEADER},notes\n{ROW},"two\nlines"\n{ROW.removeprefix("mine-1")},\n')
    assert [row["id"] for row in document("validate --runs runs.csv", capsys)["rows"]] == ["mine-1", "row 2"]


# models


def test_models(capsys: Capture) -> None:
    found = document("models", capsys)["models"]
    assert len(found) > 80
    assert {"name", "layers", "d_model", "heads", "kv_heads", "d_ff", "vocab", "parameters"} <= set(found[0])
    text = table("models", capsys)
    assert all(one["name"] in text for one in found)


def test_one_model(capsys: Capture) -> None:
    found = document("models llama-3.1-405b --seq 8192", capsys)
    assert found["parameters"] == 405_853_388_800
    assert found["seq"] == 8192
    assert found["training_flop_per_token"] < found["training_flop_per_token_full_attention"]
    text = table("models llama-3.1-405b", capsys)
    assert "405,853,388,800" in text
    assert "2407.21783" in text


def test_a_users_own_model(capsys: Capture) -> None:
    Path("config.json").write_text(
        json.dumps(
            {
                "model_type": "llama",
                "hidden_size": 2048,
                "intermediate_size": 5632,
                "num_hidden_layers": 22,
                "num_attention_heads": 32,
                "num_key_value_heads": 4,
                "vocab_size": 32000,
                "tie_word_embeddings": False,
            }
        )
    )
    assert document("models config.json", capsys)["parameters"] == 1_100_048_384
    assert "1,100,048,384" in table("models config.json", capsys)
    table("plan config.json --hardware h100-sxm --gpus 8 --batch 64 --seq 2048 --top 1", capsys)


@pytest.mark.parametrize("line", ["models nope", "models config.json", "models llama-3.1-8b --seq 0"])
def test_no_such_model(line: str, capsys: Capture) -> None:
    complaint(line, capsys)


# The table that ships


def test_the_table_is_made_the_same_again(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[1]
    with gzip.open(SHIPPED, "rt", encoding="utf-8", newline="") as file:
        text = file.read()
    (tmp_path / "full.csv").write_text(text, encoding="utf-8", newline="")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "src" / "scalewall" / "data").mkdir(parents=True)
    script = tmp_path / "scripts" / "make_runs.py"
    script.write_text((root / "scripts" / "make_runs.py").read_text())
    done = subprocess.run([sys.executable, str(script), "full.csv"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0
    made = tmp_path / "src" / "scalewall" / "data" / "runs.csv.gz"
    with gzip.open(made, "rt", encoding="utf-8", newline="") as file:
        assert file.read() == text
    assert made.read_bytes()[4:8] == b"\0\0\0\0"  # no time of making
    assert SHIPPED.stat().st_size < 120_000


# What cannot be


CONSTANTS = [
    *("matmul=0", "attention=0", "pointwise=0", "throttling=1e400", "backward_pointwise=1e300"),
    *("optimizer_traffic=1e300", "loss_traffic=1e300", "framework=1e400", "fragmentation=1e300"),
    *("logit=1e300", "plain_logit=1e400"),
]


@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_constant_without_a_finite_answer_is_refused(constant: str, capsys: Capture) -> None:
    name = constant.partition("=")[0]
    assert f"'{name}' must be" in complaint(f"validate --set {constant}", capsys)
    assert name in complaint(f"{GIVEN} --set {constant}", capsys)


@pytest.mark.parametrize("count", ["1,,2", "1,2", "12,34", "1__0", "9" * 40])
def test_a_count_is_written_as_one(count: str, capsys: Capture) -> None:
    assert f"Got '{count}' instead" in complaint(f"{LLAMA} --top {count}", capsys)
    assert "Got '0' instead" in complaint("models gpt2 --seq 0", capsys)
    document("models gpt2 --seq 1,024", capsys)


def test_a_time_next_to_nothing_is_skipped(capsys: Capture) -> None:
    Path("runs.csv").write_text(f"{HEADER}\n{ROW.replace('3.5', '1e-320')}\n")
    (row,) = document("validate --runs runs.csv", capsys)["skipped"]
    assert "step_time_s" in row["reason"]


def test_a_name_that_no_file_can_have_gets_one_line(capsys: Capture) -> None:
    assert run(["sweep-figure", ".", "a\0b", "c"]) == 2
    assert "'output' must be a file name" in capsys.readouterr().err
