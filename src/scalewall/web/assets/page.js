/* The page: what the visitor has entered is kept here, and nowhere else; the server answers and forgets. */
(function () {
  "use strict";
  const S = (window.scalewall = window.scalewall || {});
  const make = S.make;
  const $ = (id) => document.getElementById(id);
  const copy = (value) => JSON.parse(JSON.stringify(value));
  const who = Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
  const TABS = ["limits", "plan", "claims", "validation"];
  const COLOURS = 7;

  S.state = null;
  S.token = 0;
  S.good = { limits: [], plan: null };
  S.sent = { limits: [], plan: null };
  S.raw = {};
  S.faults = [];
  S.answered_once = {};

  /* Set a property of a component of the page, which asks the server what depends on it. */
  const send = (id, data) => dash_clientside.set_props(id, { data });

  const bare = (entry) => ({ name: entry.name, words: { ...entry.words }, device: { ...entry.device }, paste: entry.paste, model: entry.model });
  const fromBase = (entry, from) => ({ ...bare(copy(entry)), from, base: bare(copy(entry)) });

  function presetOf(page, key) {
    return S.presets[page].find((preset) => preset.key === key) || S.presets[page][0];
  }

  function preset(page, key) {
    const found = presetOf(page, key);
    if (page === "limits") {
      S.state.limits = { active: 0, preset: found.key, runs: found.runs.map((run, i) => fromBase(run, `${found.key}/${i}`)) };
      S.good.limits = [];
    } else {
      S.state.plan = { ...fromBase(found.run, found.key), preset: found.key };
      S.good.plan = null;
    }
  }

  /* What a link holds: entries, and which preset they came from; not the presets themselves, nor the tab, which follows it. */
  function saved() {
    const strip = ({ base, ...rest }) => rest;
    return { limits: { ...S.state.limits, runs: S.state.limits.runs.map(strip) }, plan: strip(S.state.plan) };
  }

  function based(entry, page) {
    const [key, place] = String(entry.from || "").split("/");
    const found = S.presets[page].find((p) => p.key === key);
    const base = found ? (page === "limits" ? found.runs[Number(place)] : found.run) : null;
    const empty = { name: "", words: {}, device: {}, paste: "", model: "" };
    return { ...empty, ...entry, base: bare({ ...empty, ...(base || {}) }) };
  }

  function restore(found) {
    const state = { tab: S.state.tab, ...copy(found) };
    state.limits.runs = state.limits.runs.map((run) => based(run, "limits"));
    state.plan = based(state.plan, "plan");
    S.state = state;
    S.good = { limits: [], plan: null };
    S.answered_once = { claims: S.answered_once.claims, validation: S.answered_once.validation };
  }

  // Asking ------------------------------------------------------------------------------------------

  const timers = {};
  function soon(page, wait) {
    clearTimeout(timers[page]);
    trouble("link", "");
    document.body.classList.add("busy-" + page);
    timers[page] = setTimeout(() => ask(page), wait === undefined ? 25 : wait);
  }

  function ask(page) {
    S.token += 1;
    S.waiting = { ...S.waiting, [page]: S.token };
    document.body.classList.add("busy-" + page);
    if (page === "limits") {
      const { active } = S.state.limits;
      const runs = (S.sent.limits = S.state.limits.runs.map(bare));
      send("asked-limits", { who, token: S.token, active, runs, good: runs.map((_, i) => S.good.limits[i] || null), state: saved() });
    } else if (page === "plan") {
      S.sent.plan = bare(S.state.plan);
      send("asked-plan", { who: who + "-plan", token: S.token, run: S.sent.plan, place: S.place, state: saved() });
    }
  }

  /* Dash says nothing when the server does not answer, or refuses. */
  const known = new Map();
  function trouble(kind, text) {
    known.set(kind, text);
    $("trouble").textContent = [...known.values()].filter(Boolean).join(" ");
  }

  let again = null;
  function lost() {
    trouble("server", "The server does not answer. What you entered is kept, and asked again every few seconds.");
    clearTimeout(again);
    again = setTimeout(() => {
      const page = S.state.tab;
      if (page === "limits" || page === "plan") ask(page);
      else { S.answered_once[page] = false; tab(page); }
    }, 3000);
  }

  const fetched = window.fetch;
  window.fetch = async function (...what) {
    if (!S.state) return fetched.apply(window, what);
    let answer;
    try { answer = await fetched.apply(window, what); } catch (error) { lost(); throw error; }
    if (answer.ok) trouble("server", "");
    else {
      document.body.classList.remove("busy-limits", "busy-plan");
      trouble("server", (await answer.clone().text()).split("\n")[0]);
    }
    return answer;
  };

  // Tabs, theme --------------------------------------------------------------------------------------

  function tab(name, focus) {
    S.state.tab = name;
    for (const other of TABS) {
      const button = $("tab-" + other);
      button.setAttribute("aria-selected", String(other === name));
      button.tabIndex = other === name ? 0 : -1;
      $("panel-" + other).hidden = other !== name;
    }
    if (focus) $("tab-" + name).focus();
    document.title = name === "limits" ? "scalewall" : "scalewall: " + name;
    if ((name === "limits" || name === "plan") && !S.answered_once[name]) ask(name);
    if ((name === "claims" || name === "validation") && !S.answered_once[name]) {
      S.answered_once[name] = true;
      send("asked-" + name, { who: who + "-" + name, token: ++S.token });
    }
    window.dispatchEvent(new Event("resize"));
    address();
  }

  function dark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  /* Where there is one column only, a form is folded to its head, so that the answer stands near it. */
  function unfold(name, open) {
    const button = document.querySelector(`[data-fold="${name}"]`);
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Hide the inputs" : "Change the inputs";
    button.parentNode.classList.toggle("unfolded", open);
  }

  function themed() {
    const button = $("theme");
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", dark() ? "Switch to light colours" : "Switch to dark colours");
    for (const name of Object.keys(S.raw)) dash_clientside.set_props(name, { figure: S.figure(S.raw[name], name) });
  }

  // Figures ------------------------------------------------------------------------------------------

  S.draw = function (raw, name) {
    if (!raw) return dash_clientside.no_update;
    performance.mark("drawing-" + name);
    S.raw[name] = raw;
    return S.figure(raw, name);
  };
  for (const name of ["limits", "help", "plan", "memory", "timeline", "claims", "validation"])
    S["draw_" + name] = (raw) => S.draw(raw, "graph-" + name);

  S.figure = function (raw, name) {
    const figure = copy(raw);
    const night = dark();
    const styles = getComputedStyle(document.body);
    const ink = styles.getPropertyValue("--ink").trim();
    const soft = styles.getPropertyValue("--soft").trim();
    const line = styles.getPropertyValue("--line").trim();
    const card = styles.getPropertyValue("--card").trim();
    const layout = figure.layout;
    const narrow = innerWidth < 760;
    delete layout.width;
    delete layout.title;
    Object.assign(layout, { autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", uirevision: name });
    layout.font = { ...layout.font, family: styles.fontFamily, size: narrow ? 11 : 13, color: ink };
    layout.hoverlabel = { ...layout.hoverlabel, bgcolor: card, bordercolor: line, font: { size: 12, color: ink, family: styles.fontFamily } };
    for (const key of Object.keys(layout)) {
      if (!/^[xy]axis/.test(key)) continue;
      Object.assign(layout[key], { gridcolor: line, linecolor: soft, tickcolor: soft, zerolinecolor: soft });
      layout[key].automargin = true;
    }
    for (const note of layout.annotations || []) note.font = { ...note.font, color: shade(note.font && note.font.color, night, ink, soft) };
    const black = (value) => (night && (value === "#000000" || value === "#000" || value === "#333") ? "#f2f4f7" : value);
    for (const trace of figure.data) {
      if (night && trace.fillcolor === "#e4e4e4") trace.fillcolor = "#39414c";
      for (const part of [trace.line, trace.marker, trace.marker && trace.marker.line, trace.error_x, trace.error_y]) {
        if (!part || !part.color) continue;
        part.color = Array.isArray(part.color) ? part.color.map(black) : black(part.color);
      }
    }
    for (const shape of layout.shapes || []) if (shape.line) shape.line.color = black(shape.line.color);
    if (layout.margin) Object.assign(layout.margin, { t: 34, b: 46 }, narrow ? { l: 48, r: 12 } : {});
    if (narrow && layout.legend) layout.legend = { ...layout.legend, orientation: "h", x: 0, y: name === "graph-limits" ? -0.14 : -0.1, yanchor: "top", title: undefined, font: { size: 11 } };
    if (narrow && name === "graph-limits") {
      for (const trace of figure.data) if (trace.yaxis === "y2") trace.showlegend = trace.legendgroup === "degrees";
      layout.xaxis2.dtick = layout.xaxis.dtick = 2;
    }
    if (narrow && name === "graph-validation") layout.annotations = [];
    if (name === "graph-plan" && innerWidth < 1400) stacked(layout, narrow);
    if (name === "graph-plan" && narrow) {  // the table above says which strategy each number is
      const named = [...new Set(figure.data.filter((trace) => trace.yaxis === "y2").flatMap((trace) => trace.y || []))];
      Object.assign(layout.yaxis2, { tickmode: "array", tickvals: named, ticktext: named.map((text) => String(text).split(":")[0]) });
    }
    if (name === "graph-help" && innerWidth < 1600) {
      stack(layout, [[0.7, 1], [0.35, 0.65], [0, 0.3]]);
      Object.assign(layout, { height: 1240, margin: { ...layout.margin, l: 130 } });
    }
    if (name === "graph-limits") layout.height = 640;
    tall(name, layout.height);
    return figure;
  };

  /* A rule of the style sheet, as the element itself may yet be put in place of another. */
  const heights = {};
  function tall(name, height) {
    const sheet = [...document.styleSheets].find((one) => one.href && one.href.includes("page.css"));
    if (!heights[name]) heights[name] = sheet.cssRules[sheet.insertRule(`#${name} {}`, sheet.cssRules.length)];
    heights[name].style.setProperty("height", height ? height + "px" : "", "important"); // over Dash's own 100%
  }

  /* Where there is no room for plots side by side, one stands below the other, each with its title over it. */
  function stack(layout, parts) {
    parts.forEach(([low, high], i) => {
      const tail = i ? String(i + 1) : "";
      layout["xaxis" + tail].domain = [0, 1];
      layout["yaxis" + tail].domain = [low, high];
      Object.assign(layout.annotations[i], { x: 0, y: high, xanchor: "left", yanchor: "bottom", yshift: 2 });
    });
  }

  function stacked(layout, narrow) {
    const count = layout.xaxis4 ? 4 : 3;
    const parts = narrow ? [[0.83, 1], [0.62, 0.74], [0.3, 0.42], [0.13, 0.22]] : [[0.8, 1], [0.52, 0.7], [0.24, 0.38], [0.06, 0.17]];
    if (count === 3) parts[2] = [0.12, 0.4];
    stack(layout, parts.slice(0, count));
    if (narrow) layout.annotations[1].yshift = 16;
    if (layout.legend) Object.assign(layout.legend, { x: 0, xanchor: "left", y: narrow ? 0.565 : 0.465, yanchor: "top", orientation: "h" });
    if (layout.legend2) Object.assign(layout.legend2, { y: narrow ? 0.085 : -0.01 });
    layout.height = narrow ? 1500 : 1180;
    Object.assign(layout.margin, narrow ? { l: 96, b: 60 } : { l: 130, r: 30, b: 100 });
    if (narrow) for (const note of layout.annotations) note.font = { ...note.font, size: 12 };
    for (const key of ["yaxis", "yaxis2"]) layout[key].automargin = true;
  }

  function shade(colour, night, ink, soft) {
    if (!colour || ["#000", "#333", "#444"].includes(colour)) return ink;
    return ["#666", "#888", "#555", "#777"].includes(colour) ? soft : colour;
  }

  // Answers ------------------------------------------------------------------------------------------

  S.answered = function (data) {
    if (!data || data.token < S.token && data.token !== (S.waiting || {}).limits) return;
    const { runs } = S.state.limits;
    if (data.token !== S.waiting.limits) return;
    S.answered_once.limits = true;
    document.body.classList.toggle("busy-limits", !data.done);
    S.faults = data.faults;
    if (data.faults[data.active].length) unfold("limits", true);
    data.faults.forEach((list, i) => { if (!list.length && !data.notes[i]) S.good.limits[i] = S.sent.limits[i]; });
    const form = S.forms.limits;
    if (data.active === S.state.limits.active) {
      if (data.devices) devices(form, data.devices);
      if (data.facts) form.facts(data.facts, "Hardware");
      if (data.at) form.place(data.at);
      const left = form.faults(data.faults[data.active] || []);
      notes("limits", left, data.notes, runs);
    }
    runsList();
    if (data.link) { S.link = data.link; address(); }
    if (data.done) say("The answer is complete.");
    performance.mark("answered-" + data.token);
  };

  function devices(form, names) {
    const row = form.rows.get("words.hardware");
    if (row.field.options.join() === names.join()) return;
    row.field.options = names;
    form.options(row.entry, row.field);
    form.show();
  }

  function notes(page, faults, lines, runs) {
    const items = [...faults.map((text) => make("p", { class: "fault" }, text)),
      ...lines.map((text, i) => (text ? make("p", { class: "note" }, (runs.length > 1 ? runs[i].name + ": " : "") + text) : null)).filter(Boolean)];
    $("notes-" + page).replaceChildren(...items);
  }

  S.pending = function (data) {
    if (data && data.token === S.waiting.limits) setTimeout(() => { if (data.token === S.waiting.limits) send("next-limits", { ...data, again: Math.random() }); }, 0);
  };

  /* The address holds what was answered last, and the tab. */
  const here = () => S.link + (S.state.tab === "limits" ? "" : "." + S.state.tab);
  function address() {
    if (S.link) history.replaceState(null, "", "#" + here());
  }

  function follow() {
    const [text, name] = location.hash.slice(1).split(".");
    S.state.tab = TABS.includes(name) ? name : "limits";
    S.link = text;
    send("asked-link", { text: text.slice(0, 20000), token: ++S.asides });
  }

  const say = (text) => { $("said").textContent = text; };

  // The runs of the limits page ----------------------------------------------------------------------

  function runsList() {
    const { runs, active } = S.state.limits;
    const root = $("runs");
    const focused = document.activeElement && root.contains(document.activeElement) ? document.activeElement.dataset.act : null;
    const chips = runs.map((run, i) => make("button", { type: "button", class: "chip" + ((S.faults[i] || []).length ? " faulty" : ""), "aria-pressed": String(i === active), "data-act": "pick-" + i,
      onclick: () => { S.state.limits.active = i; showLimits(); soon("limits", 0); } }, make("span", { class: `swatch series-${i % COLOURS}`, "aria-hidden": "true" }), run.name || "unnamed"));
    const action = (act, label, text, disabled, go) => make("button", { type: "button", class: "quiet", "aria-label": label, title: label, "data-act": act, disabled: disabled ? "" : null, onclick: go }, text);
    const name = make("input", { type: "text", id: "run-name", maxlength: 60, value: runs[active].name, "data-act": "name", autocomplete: "off",
      oninput: (event) => { runs[active].name = event.target.value; root.querySelectorAll(".chip")[active].lastChild.textContent = event.target.value || "unnamed"; soon("limits", 200); } });
    root.replaceChildren(
      make("div", { class: "chips", role: "group", "aria-label": "Scenario shown in the form" }, chips),
      make("div", { class: "run-row" }, make("label", { for: "run-name", class: "unseen" }, "Name of the scenario"), name,
        action("add", "Add a scenario", "+ Add", runs.length >= COLOURS, () => insert(false)),
        action("copy", "Duplicate this scenario", "Duplicate", runs.length >= COLOURS, () => insert(true)),
        action("spread", "Give every scenario this one's duration and utilisation floor", "Same duration and floor for all", runs.length < 2, spread),
        action("remove", "Remove this scenario", "Remove", runs.length < 2, removed)));
    if (focused) { const again = root.querySelector(`[data-act="${focused}"]`); if (again) { again.focus(); if (focused === "name") again.setSelectionRange(again.value.length, again.value.length); } }
  }

  function insert(same) {
    const list = S.state.limits;
    const fresh = same ? copy(list.runs[list.active]) : fromBase({ name: "H100", words: { hardware: "h100-sxm" }, device: {}, paste: "", model: "" }, "h100/0");
    const names = new Set(list.runs.map((run) => run.name));
    const stem = fresh.name.replace(/ \d+$/, "");
    for (let n = 2; names.has(fresh.name); n += 1) fresh.name = `${stem.slice(0, 56)} ${n}`;
    list.runs.push(fresh);
    S.good.limits.push(same ? S.good.limits[list.active] : null);
    list.active = list.runs.length - 1;
    showLimits();
    soon("limits", 0);
  }

  function spread() {
    const { runs, active } = S.state.limits;
    for (const run of runs) {
      for (const name of ["duration", "threshold"]) {
        if (runs[active].words[name] === undefined) delete run.words[name];
        else run.words[name] = runs[active].words[name];
      }
    }
    S.forms.limits.show();
    soon("limits", 0);
  }

  function removed() {
    const list = S.state.limits;
    list.runs.splice(list.active, 1);
    S.good.limits.splice(list.active, 1);
    S.faults.splice(list.active, 1);
    list.active = Math.max(0, list.active - 1);
    showLimits();
    soon("limits", 0);
  }

  function presetPicker(page, chosen) {
    const id = "preset-" + page;
    return make("div", { class: "preset-row" }, make("label", { for: id }, "Preset"),
      make("select", { id, onchange: (event) => { preset(page, event.target.value); (page === "limits" ? showLimits : showPlan)(); soon(page, 0); } },
        S.presets[page].map((p) => make("option", { value: p.key, selected: p.key === chosen ? "" : null }, p.title))));
  }

  function showLimits() {
    $("presets-limits").replaceChildren(presetPicker("limits", S.state.limits.preset));
    runsList();
    const form = S.forms.limits;
    form.show();
    pasted(form, "limits");
    form.faults(S.faults[S.state.limits.active] || []);
  }

  function pasted(form, page) {
    const box = $(`${page}-paste`);
    if (box) box.value = form.entry().paste || "";
    const model = $(`${page}-model`);
    if (model) model.value = form.entry().model || "";
  }

  function paster(form, page, key, title, help) {
    const id = `${page}-${key}`;
    const area = make("textarea", { id, rows: 7, spellcheck: "false", placeholder: help, "aria-describedby": id + "-fault",
      oninput: (event) => { form.entry()[key] = event.target.value; soon(page, 200); } });
    const row = make("div", { class: "field" }, make("div", { class: "field-head" }, make("label", { for: id }, title)), area, make("p", { class: "fault", id: id + "-fault", role: "alert" }));
    const group = form.group(key === "model" ? "A model of your own" : "Hardware of your own", false);
    group.append(row);
    form.rows.set("paste." + key, { field: { key, group: "", default: "" }, table: "own", row, entry: area, mark: {}, reset: {}, doc: null, fault: row.querySelector(".fault"), slider: null });
  }

  // The plan page --------------------------------------------------------------------------------------

  function startPlan() {
    const form = new S.Form("plan", $("form-plan"), () => S.state.plan, () => { S.place = 0; soon("plan"); });
    S.forms.plan = form;
    S.fields.plan.forEach((field) => form.add(field, "words", field.group !== "Cost of the whole run"));
    paster(form, "plan", "model", "Model: config.json, or TOML", '{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, …}');
    paster(form, "plan", "paste", "Device and network, TOML", 'base = "h100-sxm"\n\n[device]\nmemory = "141 GB"');
  }

  function showPlan() {
    $("presets-plan").replaceChildren(presetPicker("plan", S.state.plan.preset));
    S.place = 0;
    S.forms.plan.show();
    pasted(S.forms.plan, "plan");
  }

  S.answered_plan = function (data) {
    if (!data || data.token !== (S.waiting || {}).plan) return;
    S.answered_once.plan = true;
    const form = S.forms.plan;
    const left = form.faults(data.faults);
    if (data.faults.length) unfold("plan", true);
    notes("plan", left, [data.note], [S.state.plan]);
    if (data.degrees) {
      S.good.plan = S.sent.plan;
      S.degrees = data.degrees;
      strategies(data.table);
      devices(form, data.devices);
      form.facts(data.facts, "Hardware");
      form.place(data.at);
      send("next-plan", { who: who + "-plan", token: data.token, run: S.good.plan, place: S.place });
    }
    document.body.classList.remove("busy-plan");
    if (data.link) { S.link = data.link; address(); }
    performance.mark("answered-plan-" + data.token);
  };

  function loaded() {
    document.querySelectorAll("#table-plan [data-load]").forEach((button) => {
      const here = Number(button.dataset.load) === S.place;
      button.setAttribute("aria-pressed", String(here));
      button.closest("tr").classList.toggle("chosen", here);
    });
  }

  function load(place) {
    S.place = place;
    loaded();
    send("next-plan", { who: who + "-plan", token: S.waiting.plan, run: S.good.plan, place });
  }

  function lock(on) {
    const words = S.state.plan.words;
    for (const name of ["tp", "cp", "pp", "dp", "vpp", "micro_batch", "zero", "recompute", "shard"]) delete words[name];
    if (on && S.degrees) Object.assign(words, S.degrees[S.place] || {});
    S.place = 0;
    S.forms.plan.show();
    soon("plan", 0);
  }

  /* The table is drawn here, not by Dash, so that its rows may be put in another order. */
  function strategies(table) {
    const heads = table.heads.map((text, i) => make("th", { scope: "col", class: table.right[i] ? "number" : "", "aria-sort": text ? "none" : null },
      text ? make("button", { type: "button", class: "sorter", "data-sort": i }, text) : make("span", { class: "unseen" }, "Show")));
    const rows = table.rows.map((cells, place) => make("tr", { "data-place": place },
      cells.map((text, i) => make("td", { class: table.right[i] ? "number" : "" }, i ? text
        : make("button", { type: "button", class: "quiet load", "data-load": place, "aria-pressed": "false", "aria-label": `Show strategy ${place + 1}` }, String(place + 1))))));
    $("table-plan").replaceChildren(make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": table.caption },
      make("table", {}, make("caption", {}, table.caption), make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows))));
    loaded();
  }

  const scales = { k: 1e3, M: 1e6, G: 1e9, T: 1e12, m: 1e-3, "µ": 1e-6 };
  function size(text) {
    const match = /^(-?[\d.,]+)\s*(?:([kMGTmµ])?(?:s|B)\b)?/.exec(text);
    return match ? Number(match[1].replace(/,/g, "")) * (scales[match[2]] || 1) : text;
  }

  function sort(button) {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const column = Number(button.dataset.sort);
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.children) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...body.rows].map((row) => [size(row.cells[column].textContent), Number(row.dataset.place), row]);
    rows.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1]) * (up ? 1 : -1));
    body.replaceChildren(...rows.map((row) => row[2]));
  }

  // Start ----------------------------------------------------------------------------------------------

  S.start = function (data) {
    if (S.state) return;
    S.fields = data.fields;
    S.presets = data.presets;
    S.state = { tab: "limits", limits: null, plan: null };
    preset("limits", S.presets.limits[0].key);
    preset("plan", S.presets.plan[0].key);
    S.forms = {};
    S.forms.limits = new S.Form("limits", $("form-limits"), () => S.state.limits.runs[S.state.limits.active], () => soon("limits"));
    S.fields.limits.forEach((field) => S.forms.limits.add(field, "words", field.group === "The run" || field.group === "Scaling laws"));
    paster(S.forms.limits, "limits", "paste", "Device and network, TOML", 'base = "h100-sxm"\n\n[device]\nmemory = "141 GB"');
    startPlan();
    listen();
    themed();
    if (location.hash.length > 1) follow();
    else begin();
  };

  function begin() {
    showLimits();
    showPlan();
    tab(S.state.tab);
  }

  S.opened = function (data) {
    if (!data) return;
    if (data.state) restore(data.state);
    else S.link = null;
    begin();
    trouble("link", data.fault || "");
  };

  function listen() {
    document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const at = TABS.indexOf(S.state.tab);
      if (step) tab(TABS[(at + step + TABS.length) % TABS.length], true);
      else if (event.key === "Home") tab(TABS[0], true);
      else if (event.key === "End") tab(TABS[TABS.length - 1], true);
      else return;
      event.preventDefault();
    });
    document.addEventListener("click", clicked);
    document.addEventListener("keydown", (event) => { if (event.key === "Escape" && $("explain-dialog").open) $("explain-dialog").close(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
    let width = innerWidth < 760;
    addEventListener("resize", () => { if (width !== innerWidth < 760) { width = innerWidth < 760; themed(); } });
    addEventListener("hashchange", () => { if (location.hash.length > 1 && location.hash.slice(1) !== here()) follow(); });
    $("theme").addEventListener("click", () => {
      document.documentElement.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("scalewall-theme", document.documentElement.dataset.theme); } catch (error) { /* private windows keep nothing */ }
      themed();
    });
    $("share").addEventListener("click", () => { send("asked-share", { page: S.state.tab, state: saved(), at: location.href.split("#")[0], token: ++S.asides }); });
  }
  S.asides = 0;
  S.place = 0;

  function clicked(event) {
    const target = event.target.closest("[data-tab],[data-fold],[data-save],[data-download],[data-what],[data-copy],[data-load],[data-sort],.close,#help,#lock,#unlock");
    if (!target) return;
    const active = S.state.limits.runs[S.state.limits.active];
    const page = S.state.tab;
    if (target.dataset.tab) tab(target.dataset.tab);
    else if (target.dataset.fold) unfold(target.dataset.fold, target.getAttribute("aria-expanded") === "false");
    else if (target.dataset.save) save(target.dataset.save, target.dataset.kind);
    else if (target.dataset.download) send("asked-download", { who, page, kind: target.dataset.download, run: bare(page === "plan" ? S.state.plan : S.good.limits[S.state.limits.active] || active), token: ++S.asides });
    else if (target.dataset.copy) copyText(target);
    else if (target.dataset.load) load(Number(target.dataset.load));
    else if (target.dataset.sort) sort(target);
    else if (target.id === "lock" || target.id === "unlock") lock(target.id === "lock");
    else if (target.classList.contains("close")) target.closest("dialog").close();
    else if (target.id === "help") {
      $("about-help").textContent = "Each input is moved and everything searched anew; about a minute …";
      send("asked-help", { who: who + "-help", run: bare(S.good.limits[S.state.limits.active] || active), token: ++S.asides });
    } else explain(target.dataset.page, target.dataset.what, Number(target.dataset.place));
  }

  function explain(page, what, place, flop) {
    const run = page === "limits" ? S.good.limits[place] || S.state.limits.runs[place] : S.good.plan || S.state.plan;
    send("asked-explained", { who, page, what, flop: flop || null, run: bare(run), token: ++S.asides });
  }

  S.point = function (click) {
    if (!click || !click.points || !click.points.length) return;
    const point = click.points[0];
    const group = (S.raw["graph-limits"].data[point.curveNumber] || {}).legendgroup;
    explain("limits", "point", group === "degrees" ? S.state.limits.active : Number(group), point.x);
  };

  S.explained = function (children) {
    const dialog = $("explain-dialog");
    if (children && !dialog.open) dialog.show();
    if (children) dialog.querySelector(".close").focus();
  };
  S.shared = function (children) { if (children && !$("share-dialog").open) $("share-dialog").showModal(); };
  S.helped = function () { $("about-help").textContent = ""; $("help-figure").hidden = !S.raw["graph-help"]; dispatchEvent(new Event("resize")); };

  async function copyText(button) {
    const text = $(button.dataset.copy).textContent;
    try { await navigator.clipboard.writeText(text); } catch (error) {
      const range = document.createRange();
      range.selectNodeContents($(button.dataset.copy));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    say("Copied.");
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  function save(name, kind) {
    const filename = "scalewall-" + name.replace("graph-", "");
    if (kind === "html") { saveHtml(S.raw[name], filename); return; }
    const node = $(name).querySelector(".js-plotly-plot");
    Plotly.downloadImage(node, { format: kind, width: 1050, height: node.layout.height || 600, scale: kind === "png" ? 2 : 1, filename });
  }

  /* A file that needs nothing else: the figure, and Plotly itself. */
  async function saveHtml(figure, filename) {
    const plotly = await (await fetch("plotly.min.js")).text();
    const inside = JSON.stringify(figure).replace(/</g, "\\u003c");
    const text = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${filename}</title></head><body><div id="figure"></div>`
      + `<script>${plotly}</script><script>const figure = ${inside}; Plotly.newPlot("figure", figure.data, figure.layout, { displaylogo: false });</script></body></html>`;
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/html" })), download: filename + ".html" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  try { const theme = localStorage.getItem("scalewall-theme"); if (theme) document.documentElement.dataset.theme = theme; } catch (error) { /* as above */ }
  window.dash_clientside = Object.assign({}, window.dash_clientside, { scalewall: S });
})();
