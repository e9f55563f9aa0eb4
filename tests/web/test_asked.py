import functools
import pickle

import pytest

pytest.importorskip("dash", reason="the page needs scalewall[web]")

from scalewall import cli
from scalewall.errors import InputError
from scalewall.study.scenario import scenario
from scalewall.web import asked, presets, texts, toml, work
from scalewall.web.fields import forms

SECRET = "/etc/passwd"


def limits(**entry):
    with asked.folder():
        return asked.limits_scenario(asked.read_limits(entry))


def plan(**entry):
    with asked.folder():
        return asked.plan_words(asked.read_plan(entry))


def test_every_preset_of_limits_is_a_scenario():
    for _, runs in presets.LIMITS.values():
        for run in runs:
            assert limits(**run).clusters


def test_every_preset_of_plans_is_a_scenario():
    for _, run in presets.PLANS.values():
        plan(**run).question()


def test_defaults_of_the_form_are_those_of_the_scenario():
    words = {f["key"]: f["default"] for f in forms()["limits"] if f["default"] and f["kind"] != "switch"}
    assert limits(words=words) == scenario(hardware="h100-sxm", points=60)


@pytest.mark.parametrize(
    "name", [SECRET, "../h100-sxm", "h100-sxm.toml", "my-device.toml", "./x.toml", "a\0.toml"]
)
def test_a_path_is_no_device(name):
    with pytest.raises(InputError, match="hardware"):
        limits(words={"hardware": name})
    with pytest.raises(InputError, match="hardware"):
        plan(words={"hardware": name})


@pytest.mark.parametrize("name", [SECRET, "config.json", "../config.json", "my-model.toml", "/tmp/x.sh"])
def test_a_path_is_no_model(name):
    with pytest.raises(InputError, match="model"):
        plan(words={"model": name})


@pytest.mark.parametrize("base", [SECRET, "../../x.toml", "my-device.toml", "my-model.toml"])
def test_what_is_pasted_is_not_based_on_a_path(base):
    with pytest.raises(InputError, match="base"):
        limits(paste=f'base = "{base}"')
    with pytest.raises(InputError, match="base"):
        plan(model=f'base = "{base}"')


def test_the_name_of_what_is_pasted_leads_nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert limits(paste='base = "h100-sxm"\nname = "../../../escaped"').hardware == ("escaped.toml",)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "word", ["scaling", "how", "space", "uncertain", "layout", "scenario", "output", "figure"]
)
def test_only_fields_of_the_page_are_read(word):
    with pytest.raises(InputError, match="a field of this page"):
        asked.read_limits({"words": {word: "x"}})


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {"words": [1]},
        {"words": {"duration": 3}},
        {"words": {"duration": "3" * 500}},
        {"name": 1},
        {"paste": ["x"]},
        {"device": {str(i): "1" for i in range(100)}},
    ],
)
def test_what_is_no_entry_is_refused(entry):
    with pytest.raises(InputError):
        asked.read_limits(entry)


def test_a_pasted_text_that_is_too_long_or_broken_is_refused_beside_its_field():
    with pytest.raises(InputError, match=r"'paste' must be text of at most 20,000 characters.*It has 30,000"):
        limits(paste="x" * 30_000)
    with pytest.raises(InputError, match="'model' must be text of at most 20,000 characters"):
        plan(model="{" + " " * 30_000)
    with pytest.raises(InputError, match=r"'model' must be valid JSON\. Got '\{broken'"):
        plan(model="{broken")


def test_half_a_character_is_read_as_a_question_mark():
    assert asked.read_limits({"name": "a\ud83d"}).name == "a?"
    with pytest.raises(InputError, match="duration"):
        limits(words={"duration": "\ud83d"})


def test_work_is_bounded():
    with pytest.raises(InputError, match="points"):
        limits(words={"points": "1000"})
    with pytest.raises(InputError, match="points"):
        limits(words={"points": "9" * 100})
    with pytest.raises(InputError, match="from 2 to 120"):
        limits(words={"points": "1"})
    with pytest.raises(InputError, match="from 1 to 50"):
        plan(words={"top": "51"})


def test_numbers_of_a_device_can_be_changed():
    changed = limits(device={"memory": "120 GB", "scale_up_bandwidth": "900 GB/s", "domain_size": "64"})
    (cluster,) = changed.clusters
    assert cluster.device.memory == 120e9
    assert cluster.tiers[0].bandwidth == 900e9
    assert cluster.tiers[0].size == 64
    assert cluster.sources["device.sustained"].text  # what was not changed keeps its source
    with pytest.raises(InputError, match="memory"):
        limits(device={"memory": "much"})
    with pytest.raises(InputError, match="nonsense"):
        limits(device={"nonsense": "1"})


def test_every_number_of_every_device_comes_back_from_its_toml(tmp_path, monkeypatch):
    from scalewall.hardware import catalogue

    monkeypatch.chdir(tmp_path)
    for name in catalogue.names():
        asked_for = scenario(hardware=name)
        (cluster,) = asked_for.clusters
        for one, path in asked.device_inputs(asked_for, cluster):
            near = (v for v in (one.value + 1.0, 0.5 * one.value, 1.5 * one.value) if one.allows(v))
            _, changed = one.set(asked_for, cluster, next(near))
            assert path in toml.changes(cluster, changed)
            (tmp_path / "x.toml").write_text(toml.overlaid(cluster, changed, name), encoding="utf-8")
            again = catalogue.load("x.toml")
            assert again.tiers == changed.tiers
            assert {**vars_of(again.device), "name": ""} == {**vars_of(changed.device), "name": ""}


def vars_of(device):
    import attrs

    return attrs.asdict(device)


RUNS = [
    {"words": {"hardware": "b200", "duration": "6 months", "batch_law": "17.75*D^0.47", "fill": "0.5"}},
    {"words": {"hardware": "v100", "preset": "epoch-2024", "to_flop": "1e28"}},
    {"words": {"pp": "8,16", "schedule": "1f1b", "overlap_data": "true", "from_flop": "1e25"}},
    {"words": {"threshold": "0.7"}, "device": {"scale_out_latency": "3 us"}},
    {"paste": 'base = "h100-sxm"\nname = "my-h100-sxm"', "device": {"memory": "90 GB"}},
    {"paste": 'base = "a100-80gb-sxm"\n[device]\nmemory = "70 GB"', "device": {"memory": "90 GB"}},
]


@pytest.mark.parametrize("run", RUNS)
def test_the_texts_ask_the_same_question(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entry = asked.read_limits(run)
    own = work.own_files((entry,), False)
    for name, text in own.texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = texts.limits_words(entry, own.names[0][0])
    wanted = limits(**run)
    (tmp_path / "scenario.toml").write_text(texts.tables(words), encoding="utf-8")
    from scalewall.study.scenario import from_toml

    assert from_toml("scenario.toml") == wanted
    namespace = {}
    import scalewall

    monkeypatch.setattr(scalewall, "limits", lambda hardware, **more: scenario(hardware=hardware, **more))
    source = texts.python("limits", words).rsplit("print", 1)[0]
    exec(source, namespace)
    assert namespace["answer"] == wanted
    import shlex

    from scalewall.study import limits as study

    seen = []

    def stop(asked_for, *_, **__):
        seen.append(asked_for)
        raise InputError("x", "stopped", None)

    monkeypatch.setattr(study, "limits", stop)
    cli.run(shlex.split(texts.command("limits", words))[1:])
    assert seen == [wanted]


def test_files_of_several_scenarios_have_names_of_their_own():
    entries = tuple(asked.read_limits({"device": {"memory": size}}) for size in ("90 GB", "70 GB", "90 GB"))
    own = work.own_files(entries, False)
    first, second, third = (device for device, _ in own.names)
    assert first == third != second
    assert "90000000000.0" in own.texts[first]
    assert "70000000000.0" in own.texts[second]


def test_a_pasted_device_and_a_pasted_model_may_have_the_same_name():
    pasted = {"paste": 'base = "h100-sxm"\nname = "mine"', "model": 'base = "llama-3.1-8b"\nname = "mine"'}
    (names,) = work.own_files((asked.read_plan(pasted),), True).names
    assert names == ("mine-2.toml", "mine.toml")


def test_what_is_shared_says_what_is_wrong():
    own = work.own_files((asked.read_limits({"words": {"duration": "3 bananas"}}),), False)
    assert own.names == ((None, None),)
    assert own.faults[0].startswith("The 'duration' must be a time")


def test_what_would_help_is_the_commands_table_and_can_be_sent_from_one_process_to_another(monkeypatch):
    from scalewall.present.tables_sensitivity import elasticities_table
    from scalewall.study.sensitivity import sensitivity
    from scalewall.web.plain import plain

    quick = functools.partial(sensitivity, at=("wall",), only=["memory"])
    monkeypatch.setattr(work.sensitivities, "sensitivity", quick)
    report = pickle.loads(pickle.dumps(work.helped(asked.read_limits({"words": {"preset": "epoch-2024"}}))))
    (found,) = quick(scenario(hardware="h100-sxm", preset="epoch-2024")).devices
    assert report.tables == [plain(elasticities_table(found))]
    assert report.figure
