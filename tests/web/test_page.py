"""The page in a browser."""

import csv
import io
import itertools
import json
import random

import pytest

pytest.importorskip("dash", reason="the page needs scalewall[web]")

from scalewall import cli
from tests.web.looking import looking

pytestmark = pytest.mark.browser

LOOKED_AT = {
    "exclude": [[".svg-container"], ["#table-validation tbody tr:nth-child(n+8)"]]
}  # more of the same
OPEN = "(all) => all.forEach((d) => { d.open = true; })"


def fill(looked, name, text):
    looked.page.locator(f"#limits-words-{name}").fill(text)
    looked.settle()


def test_presets_load_and_change_the_figure(browser, address):
    with looking(browser, address) as looked:
        looked.open().settle()
        first = looked.figure()
        assert [name.split("<")[0] for name, _, _ in first] == ["H100", "A100", "V100"]
        looked.page.select_option("#preset-limits", "zhang")
        looked.settle()
        second = looked.figure()
        assert [name.split("<")[0] for name, _, _ in second] == ["Baseline batch", "Zhang 2024"]
        assert all(len(x) == 60 for _, x, _ in second)
        assert looked.page.input_value("#limits-words-duration") == "6 months"
        assert not looked.page.locator(".mark:visible").count()
        fill(looked, "duration", "7 months")
        assert looked.page.locator(".mark:visible").count() == 1
        looked.page.click("[data-key=duration] .reset")
        assert looked.page.input_value("#limits-words-duration") == "6 months"
        looked.settle()
        assert looked.figure() == second


def test_a_link_reproduces_a_scenario_in_another_browser(browser, address):
    with looking(browser, address) as looked:
        looked.open().settle()
        looked.page.click("[data-act=copy]")
        fill(looked, "duration", "4 months")
        looked.page.locator("#panel-limits details").evaluate_all(OPEN)
        looked.page.locator("#limits-device-memory").fill("120 GB")
        looked.settle()
        looked.page.wait_for_timeout(300)
        figure, link = looked.figure(), looked.page.url.split("/", 3)[3]
        entries = looked.page.evaluate(
            "() => window.scalewall.state.limits.runs.map((r) => [r.name, r.words, r.device])"
        )
    with looking(browser, address) as other:
        other.open(link).settle()
        assert other.figure() == figure
        assert entries == other.page.evaluate(
            "() => window.scalewall.state.limits.runs.map((r) => [r.name, r.words, r.device])"
        )
        assert other.page.input_value("#limits-device-memory") == "120 GB"
        assert other.page.locator(".mark").locator("visible=true").count() >= 1


def test_a_bad_entry_shows_one_line_and_the_last_good_answer_stays(browser, address):
    with looking(browser, address) as looked:
        looked.open().settle()
        before = looked.figure()
        fill(looked, "duration", "3 bananas")
        line = looked.page.locator("#limits-words-duration-fault")
        assert line.inner_text().startswith("The 'duration' must be a time")
        assert "\n" not in line.inner_text()
        assert looked.page.get_attribute("#limits-words-duration", "aria-invalid") == "true"
        assert looked.figure() == before
        fill(looked, "duration", "3 months")
        looked.settle()
        assert line.inner_text() == ""
        assert looked.figure() == before


def test_the_download_is_the_commands_output(browser, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with looking(browser, address) as looked:
        looked.open().settle()
        looked.page.locator("#panel-limits details").evaluate_all(OPEN)
        fill(looked, "points", "6")
        looked.settle()
        with looked.page.expect_download() as caught:
            looked.page.click("#panel-limits [data-download=csv]")
        caught.value.save_as(tmp_path / "page.csv")
        with looked.page.expect_download() as caught:
            looked.page.click("#panel-limits [data-download=parquet]")
        caught.value.save_as(tmp_path / "page.parquet")
    for kind in ("csv", "parquet"):
        assert cli.run(["limits", "--hardware", "h100-sxm", "--points", "6", "-o", f"command.{kind}"]) == 0
    page, command = ((tmp_path / f"{name}.csv").read_text() for name in ("page", "command"))
    assert page == command
    import polars as pl

    assert pl.read_parquet("page.parquet").equals(pl.read_parquet("command.parquet"))
    about, _, table = page.partition("\n")
    assert json.loads(about.removeprefix("# "))["scenario"]["points"] == 6
    assert len(list(csv.DictReader(io.StringIO(table)))) == 6


def test_numbers_open_their_formula_and_source(browser, address):
    with looking(browser, address) as looked:
        looked.open().settle()
        looked.page.locator("#table-limits .explained", has_text="%").first.click()
        dialog = looked.page.locator("#explain-dialog")
        dialog.locator(".formula").first.wait_for()
        text = dialog.inner_text()
        assert "C / (steps · step · devices · peak)" in text
        assert "989.4 TFLOP/s" in text
        assert "Epoch AI" in text
        looked.page.locator("#explain-dialog .close").click()
        assert not dialog.is_visible()


def test_plans_are_found_loaded_locked_and_explained(browser, address):
    with looking(browser, address) as looked:
        looked.open()
        looked.page.click("#tab-plan")
        looked.page.wait_for_selector("#table-plan tbody tr")
        rows = looked.page.locator("#table-plan tbody tr")
        assert rows.count() == 10
        looked.page.wait_for_selector("#graph-plan .barlayer .trace")
        looked.page.click("[data-load='2']")
        looked.page.click("#lock")
        looked.page.wait_for_function("() => document.querySelectorAll('#table-plan tbody tr').length === 1")
        assert looked.page.input_value("#plan-words-tp") != ""
        looked.page.click("#unlock")
        looked.page.wait_for_function("() => document.querySelectorAll('#table-plan tbody tr').length === 10")
        looked.page.click("[data-sort='3']")
        column = [text for text in looked.page.locator("#table-plan tbody td:nth-child(4)").all_inner_texts()]
        assert column == sorted(column)
        looked.page.locator("#plan-words-gpus").fill("8")
        note = looked.page.locator("#notes-plan")
        looked.page.wait_for_function("() => document.querySelector('#notes-plan').textContent")
        assert "No strategy fits 8 devices" in note.inner_text()
        assert "What would do: 48 devices" in note.inner_text()
        assert rows.count() == 10  # the last good answer stays


def test_a_model_and_a_device_of_ones_own(browser, address):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
    }
    with looking(browser, address) as looked:
        looked.open()
        looked.page.click("#tab-plan")
        looked.page.wait_for_selector("#table-plan tbody tr")
        looked.page.locator("#plan-model").evaluate("(e) => { e.closest('details').open = true; }")
        looked.page.locator("#plan-model").fill(json.dumps(config))
        looked.page.wait_for_function(
            "() => document.querySelector('#words-plan').textContent.includes('8,030,261,248')"
        )
        looked.page.locator("#plan-model").fill("{broken")
        looked.page.wait_for_function("() => document.querySelector('#plan-model-fault').textContent")
        assert "8,030,261,248" in looked.page.locator("#words-plan").inner_text()
        looked.page.locator("#plan-model").fill("")
        looked.page.locator("#plan-paste").evaluate("(e) => { e.closest('details').open = true; }")
        looked.page.locator("#plan-paste").fill(
            'base = "h100-sxm"\nname = "big"\n[device]\nmemory = "200 GB"'
        )
        looked.page.wait_for_function(
            "() => document.querySelector('#words-plan').textContent.includes('big')"
        )


def test_sharing_says_the_command(browser, address):
    with looking(browser, address) as looked:
        looked.open().settle()
        looked.page.click("#share")
        looked.page.wait_for_selector("#copied-1")
        assert (
            looked.page.inner_text("#copied-1").splitlines()[0]
            == "scalewall limits --hardware h100-sxm --points 60"
        )
        assert looked.page.inner_text("#copied-0").startswith(address)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_violation_of_accessibility(browser, address, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    found = []
    with looking(browser, address, color_scheme=scheme) as looked:
        looked.open().settle()
        for tab in ("limits", "plan", "claims", "validation"):
            looked.page.click(f"#tab-{tab}")
            if tab == "plan":
                looked.page.wait_for_selector("#table-plan tbody tr")
                looked.page.wait_for_selector("#graph-plan .barlayer .trace")
            if tab == "validation":
                looked.page.wait_for_selector("#table-validation table", timeout=60_000)
            if tab == "limits":
                looked.page.locator("#table-limits .explained").first.click()
                looked.page.wait_for_selector("#explain-dialog .formula")
            looked.page.locator("details").evaluate_all(OPEN)
            for violation in axe.Axe().run(looked.page, LOOKED_AT).response["violations"]:
                if violation["impact"] in ("serious", "critical"):
                    targets = [node["target"] for node in violation["nodes"][:4]]
                    found.append((tab, violation["id"], targets))
    assert not found


def test_the_page_is_usable_at_400_pixels(browser, address):
    with looking(browser, address) as looked:
        looked.page.set_viewport_size({"width": 400, "height": 800})
        looked.open().settle()
        for tab in ("limits", "plan", "validation"):
            looked.page.click(f"#tab-{tab}")
            looked.page.wait_for_timeout(500)
            assert looked.page.evaluate("() => document.documentElement.scrollWidth") <= 400


def test_a_narrow_page_shows_the_answer_first_and_the_inputs_when_asked(browser, address):
    with looking(browser, address) as looked:
        looked.page.set_viewport_size({"width": 400, "height": 800})
        looked.open().settle()
        entry = looked.page.locator("#limits-words-duration")
        assert looked.page.locator("#graph-limits").bounding_box()["y"] < 400
        assert not entry.is_visible()
        looked.page.click("#panel-limits [data-fold]")
        assert entry.is_visible()
        looked.page.click("#panel-limits [data-fold]")
        assert not entry.is_visible()


def test_tabs_and_theme_by_keyboard(browser, address):
    with looking(browser, address, color_scheme="light") as looked:
        looked.open().settle()
        looked.page.focus("#tab-limits")
        looked.page.keyboard.press("ArrowRight")
        assert looked.page.get_attribute("#tab-plan", "aria-selected") == "true"
        looked.page.focus("#theme")
        looked.page.keyboard.press("Enter")
        dark = looked.page.evaluate("() => getComputedStyle(document.body).color")
        assert dark == "rgb(231, 234, 239)"
        looked.page.focus("#tab-plan")
        looked.page.keyboard.press("Home")
        looked.page.wait_for_selector("#panel-limits:visible")


def test_a_link_holds_the_tab_and_each_tab_shares_its_own_command(browser, address):
    with looking(browser, address) as looked:
        looked.open().settle()
        looked.page.click("#tab-validation")
        looked.page.wait_for_selector("#table-validation table")
        looked.page.click("#share")
        looked.page.wait_for_selector("#share-dialog[open] #copied-1")
        assert looked.page.inner_text("#copied-1") == "scalewall validate"
        link = looked.page.inner_text("#copied-0")
        assert link == looked.page.url
    with looking(browser, address) as other:
        other.open(link.split("/", 3)[3])
        other.page.wait_for_selector("#table-validation table")
        assert other.page.get_attribute("#tab-validation", "aria-selected") == "true"


def test_what_is_too_long_for_a_link_is_said_and_shared_as_a_file(browser, address):
    with looking(browser, address) as looked:
        looked.open().settle()
        noise = "".join(random.Random(0).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=19_000))
        looked.page.select_option("#preset-limits", "h100")
        looked.page.locator("#limits-paste").evaluate("(e) => { e.closest('details').open = true; }")
        looked.page.locator("#limits-paste").fill(f'base = "h100-sxm"\nname = "long"\n# {noise}')
        looked.page.wait_for_timeout(300)
        looked.settle()
        looked.page.click("#share")
        looked.page.wait_for_selector("#share-dialog[open] #copied-3")
        assert "The 'link' must be at most" in looked.page.inner_text("#shared")
        assert "long.toml, a file that these need beside them" in looked.page.inner_text("#shared")
        assert noise in looked.page.inner_text("#copied-3")


def test_a_link_of_another_version_leaves_out_what_is_not_known_and_says_so(browser, address):
    from scalewall.web import link

    run = {"name": "old", "words": {"hardware": "v100", "duration": "5 months", "gone": "3"}}
    state = {"limits": {"active": 0, "runs": [run]}, "plan": {"words": {"model": "gpt3-175b"}}}
    with looking(browser, address) as looked:
        looked.open(f"#{link.encode(state)}").settle()
        assert "leaves out: 'gone'" in looked.page.inner_text("#trouble")
        assert looked.page.input_value("#limits-words-duration") == "5 months"
        looked.open("#garbage")
        looked.page.wait_for_function("() => document.querySelector('#trouble').textContent.includes('link')")
        looked.settle()
        assert "The 'link' must be one that this page made" in looked.page.inner_text("#trouble")
        fill(looked, "duration", "4 months")
        assert not looked.page.inner_text("#trouble")


def test_a_server_that_does_not_answer_is_noticed_and_asked_again(browser, address):
    with looking(browser, address) as looked:
        looked.open().settle()
        looked.page.context.set_offline(True)
        looked.page.locator("#limits-words-duration").fill("3.5 months")
        looked.page.wait_for_function("() => document.querySelector('#trouble').textContent")
        assert looked.page.inner_text("#trouble").startswith("The server does not answer.")
        looked.page.context.set_offline(False)
        looked.page.wait_for_function("() => !document.querySelector('#trouble').textContent")
        looked.settle()
        assert looked.page.input_value("#limits-words-duration") == "3.5 months"
        looked.wrong.clear()


def test_escape_closes_what_stands_behind_a_number(browser, address):
    with looking(browser, address) as looked:
        looked.open().settle()
        number = looked.page.locator("#table-limits .explained").first
        number.focus()
        looked.page.keyboard.press("Enter")
        looked.page.wait_for_selector("#explain-dialog .formula")
        looked.page.keyboard.press("Escape")
        assert not looked.page.locator("#explain-dialog").is_visible()
        assert number.evaluate("(e) => e === document.activeElement")


def test_scenarios_of_the_same_long_name_are_told_apart(browser, address):
    with looking(browser, address) as looked:
        looked.open().settle()
        looked.page.select_option("#preset-limits", "h100")
        looked.settle()
        looked.page.fill("#run-name", "n" * 60)
        looked.page.click("[data-act=copy]")
        looked.page.select_option("#limits-words-hardware", "v100")
        looked.page.fill("#run-name", "n" * 60)
        looked.page.wait_for_timeout(300)
        looked.settle()
        looked.page.evaluate(
            "() => { const all = window.scalewall.raw['graph-limits'].data;"
            "const curveNumber = all.findLastIndex((t) => t.yaxis === 'y' && t.mode !== 'markers');"
            "window.scalewall.point({ points: [{ curveNumber, x: 1e25 }] }); }"
        )
        looked.page.wait_for_selector("#explain-dialog .formula")
        assert "125 TFLOP/s" in looked.page.inner_text("#explain-dialog")


def test_a_figure_saved_as_html_needs_nothing_else(browser, address, tmp_path):
    with looking(browser, address) as looked:
        looked.open().settle()
        looked.page.fill("#run-name", "</script><b>H100")
        looked.page.wait_for_timeout(300)
        looked.settle()
        with looked.page.expect_download() as caught:
            looked.page.click("#graph-limits-figure [data-kind=html]")
        assert caught.value.suggested_filename == "scalewall-limits.html"
        caught.value.save_as(tmp_path / "figure.html")
    context = browser.new_context(offline=True)
    try:
        page = context.new_page()
        page.set_content((tmp_path / "figure.html").read_text(encoding="utf-8"))
        page.wait_for_selector(".legendtext")
        assert "</script><b>H100" in page.locator(".legendtext").first.text_content()
    finally:
        context.close()


def test_a_scenario_without_an_answer_is_not_said_to_be_found(browser, address):
    from scalewall.web import link

    run = {"name": "bad", "words": {"duration": "3 bananas"}}
    state = {"limits": {"active": 0, "runs": [run]}, "plan": {"words": {"model": "gpt3-175b"}}}
    with looking(browser, address) as looked:
        looked.open(f"#{link.encode(state)}")
        looked.page.wait_for_function(
            "() => document.querySelector('#table-limits').textContent.includes('no answer to its entries')"
        )


def test_the_download_of_a_plan_is_the_commands_output(browser, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with looking(browser, address) as looked:
        looked.open()
        looked.page.click("#tab-plan")
        looked.page.wait_for_selector("#table-plan tbody tr")
        with looked.page.expect_download() as caught:
            looked.page.click("#panel-plan [data-download=csv]")
        caught.value.save_as(tmp_path / "page.csv")
    words = "plan gpt3-175b --hardware a100-80gb-sxm --gpus 1024 --batch 1536 --seq 2048 -o command.csv"
    assert cli.run(words.split()) == 0
    assert (tmp_path / "page.csv").read_text() == (tmp_path / "command.csv").read_text()


def test_what_would_help_has_room_for_its_names(browser, address):
    with looking(browser, address) as looked:
        looked.open()
        layout = looked.page.evaluate(
            "() => { const axis = () => ({}); const layout = { margin: {}, annotations: [{}, {}, {}] };"
            "for (const tail of ['', '2', '3'])"
            "Object.assign(layout, { ['xaxis' + tail]: axis(), ['yaxis' + tail]: axis() });"
            "return window.scalewall.figure({ data: [], layout }, 'graph-help').layout; }"
        )
        assert all(layout[f"xaxis{tail}"]["domain"] == [0, 1] for tail in ("", "2", "3"))
        heights = sorted(layout[f"yaxis{tail}"]["domain"] for tail in ("", "2", "3"))
        assert all(below[1] < above[0] for below, above in itertools.pairwise(heights))
