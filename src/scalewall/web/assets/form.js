/* Forms: fields drawn from what the server says of them; entries are kept as text, just as they were typed. */
(function () {
  "use strict";
  const S = (window.scalewall = window.scalewall || {});

  S.make = function (tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "hidden") node.hidden = value;
      else if (name === "value") node.value = value;
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
    }
    for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
    return node;
  };
  const make = S.make;

  S.number = (value) => {
    const text = Number(value.toPrecision(3));
    const size = Math.abs(text);
    return size >= 1e6 || (size && size < 1e-3) ? text.toExponential().replace("e+", "e") : String(text);
  };

  function toSlider(field, value) {
    const [low, high] = field.ends;
    if (field.straight || low <= 0) return (1000 * (value - low)) / (high - low);
    return (1000 * Math.log(value / low)) / Math.log(high / low);
  }

  function fromSlider(field, at) {
    const [low, high] = field.ends;
    const share = at / 1000;
    const value = field.straight || low <= 0 ? low + share * (high - low) : low * Math.pow(high / low, share);
    const [unit, size] = field.scale;
    let number = value / size;
    if (field.whole) number = Math.round(number);
    const text = field.whole ? String(number) : S.number(number);
    return unit ? text + " " + unit : text;
  }

  /* A form over one entry: `entry()` gives it, `table(field)` names its part, `changed()` is told of edits. */
  S.Form = class {
    constructor(name, root, entry, changed) {
      Object.assign(this, { name, root, entry, changed, rows: new Map(), groups: new Map() });
    }

    group(title, open) {
      if (!this.groups.has(title)) {
        const body = make("div", { class: "group-body" });
        const count = make("span", { class: "count" });
        const details = make("details", { class: "group", open: open ? "" : null }, make("summary", {}, title, count), body);
        this.root.append(details);
        this.groups.set(title, { body, count, details });
      }
      return this.groups.get(title).body;
    }

    add(field, table, open) {
      const id = `${this.name}-${table}-${field.key}`;
      const parts = this.control(field, table, id);
      const mark = make("span", { class: "mark", hidden: true }, "modified");
      const reset = make("button", { type: "button", class: "reset", hidden: true, "aria-label": `Reset ${field.label}`, title: "Reset", onclick: () => this.reset(field, table) }, "↺");
      const doc = make("p", { class: "doc", id: id + "-doc", hidden: true });
      const about = make("button", { type: "button", class: "about", "aria-expanded": "false", "aria-controls": id + "-doc", "aria-label": `About ${field.label}`,
        onclick: () => { doc.hidden = !doc.hidden; about.setAttribute("aria-expanded", String(!doc.hidden)); } }, "?");
      const fault = make("p", { class: "fault", id: id + "-fault", role: "alert" });
      const row = make("div", { class: "field", "data-key": field.key, "data-table": table },
        make("div", { class: "field-head" }, make("label", { for: id }, field.label), about, mark, reset),
        make("div", { class: "field-entry" + (parts.slider ? " with-slider" : "") }, parts.slider, parts.entry, parts.list), doc, fault);
      this.group(field.group, open).append(row);
      this.rows.set(table + "." + field.key, { field, table, row, mark, reset, doc, fault, ...parts });
      this.document(table + "." + field.key);
    }

    document(key) {
      const { field, doc } = this.rows.get(key);
      const sentence = (field.doc ? field.doc.charAt(0).toUpperCase() + field.doc.slice(1) : field.label) + ".";
      const base = field.default ? ` Default: ${field.default}.` : "";
      doc.replaceChildren(sentence + base, ...(field.source ? [make("br"), make("span", { class: "source" }, (field.derived ? "Derived: " : "Source: ") + field.source)] : []));
    }

    control(field, table, id) {
      const described = { id, "aria-describedby": id + "-fault" };
      const put = (text) => this.put(field, table, text);
      if (field.kind === "choice") {
        const entry = make("select", { ...described, onchange: (event) => put(event.target.value) });
        this.options(entry, field);
        return { entry };
      }
      if (field.kind === "switch") {
        const entry = make("input", { ...described, type: "checkbox", role: "switch", onchange: (event) => put(String(event.target.checked)) });
        return { entry };
      }
      const more = field.options.length ? { list: id + "-list" } : {};
      const entry = make("input", { ...described, ...more, type: "text", autocomplete: "off", spellcheck: "false", maxlength: 200,
        placeholder: field.empty, oninput: (event) => put(event.target.value) });
      const list = field.options.length ? make("datalist", { id: id + "-list" }, field.options.map((o) => make("option", { value: o }))) : null;
      const slider = field.ends
        ? make("input", { type: "range", min: 0, max: 1000, step: 1, "aria-label": field.label + ", slider",
            oninput: (event) => { const text = fromSlider(this.rows.get(table + "." + field.key).field, Number(event.target.value));
              event.target.setAttribute("aria-valuetext", text); entry.value = text; put(text); } })
        : null;
      return { entry, list, slider };
    }

    options(select, field) {
      select.replaceChildren(...field.options.map((option) => make("option", { value: option }, option || field.empty || "none")));
    }

    base(field, table) {
      const from = this.entry().base || {};
      return (from[table] || {})[field.key] ?? field.default;
    }

    put(field, table, text) {
      const entry = this.entry();
      const given = entry[table];
      if (text.trim() === "" || text.trim() === field.default) delete given[field.key];
      else given[field.key] = text;
      this.marks();
      this.changed(table + "." + field.key);
    }

    reset(field, table) {
      const entry = this.entry();
      const base = ((entry.base || {})[table] || {})[field.key];
      if (base === undefined) delete entry[table][field.key];
      else entry[table][field.key] = base;
      this.show();
      this.changed(table + "." + field.key);
      const row = this.rows.get(table + "." + field.key);
      if (row) row.entry.focus();
    }

    show() {
      for (const { field, table, entry } of this.rows.values()) {
        if (table === "own") continue;
        const value = this.entry()[table][field.key] ?? field.default;
        if (field.kind === "switch") entry.checked = value === "true";
        else if (entry.value !== value) entry.value = value;
      }
      this.marks();
    }

    marks() {
      const counts = new Map();
      for (const { field, table, mark, reset, row } of this.rows.values()) {
        if (table === "own") continue;
        const modified = (this.entry()[table][field.key] ?? field.default) !== this.base(field, table);
        mark.hidden = reset.hidden = !modified;
        row.classList.toggle("modified", modified);
        if (modified) counts.set(field.group, (counts.get(field.group) || 0) + 1);
      }
      for (const [title, group] of this.groups) group.count.textContent = counts.has(title) ? ` ${counts.get(title)} modified` : "";
    }

    place(at) {
      for (const [key, { field, slider, entry }] of this.rows) {
        if (!slider || slider === document.activeElement) continue;
        const value = at[key];
        if (value === undefined || value === null) continue;
        slider.value = Math.max(0, Math.min(1000, toSlider(field, value)));
        slider.setAttribute("aria-valuetext", entry.value);
      }
    }

    faults(list) {
      const left = [];
      for (const row of this.rows.values()) {
        row.pending = [];
      }
      for (const fault of list) {
        const name = fault.field.split(/[.[]/)[0];
        const rows = [...this.rows.values()];
        const pasted = rows.filter((r) => r.table === "own" && r.entry.value.trim());
        const row = pasted.find((r) => r.field.key === fault.field) || rows.find((r) => r.field.key === fault.field) || rows.find((r) => r.field.key === name) || pasted[0];
        if (row) row.pending.push(fault.text);
        else left.push(fault.text);
      }
      for (const row of this.rows.values()) {
        const text = row.pending[0] || "";
        if (row.fault.textContent !== text) row.fault.textContent = text;
        row.row.classList.toggle("faulty", Boolean(text));
        if (text) row.entry.setAttribute("aria-invalid", "true");
        else row.entry.removeAttribute("aria-invalid");
        if (text) { const details = row.row.closest("details"); if (details && !details.open) details.open = true; }
      }
      return left;
    }

    /* The numbers of the device, which change with it. */
    facts(list, title) {
      const keys = new Set(list.map((fact) => fact.key));
      for (const [key, { table, field, row }] of [...this.rows]) if (table === "device" && !keys.has(field.key)) { row.remove(); this.rows.delete(key); }
      for (const fact of list) {
        const size = fact.value / Number.parseFloat(fact.shown);
        const unit = fact.shown.replace(/^[-+0-9.e]+\s*/, "");
        const top = ["sustained"].includes(fact.key) ? 1 : fact.value * 100;
        const field = { key: fact.key, label: fact.label, group: title, kind: "text", default: fact.shown, doc: fact.doc, source: fact.source, derived: fact.derived,
          options: [], ends: [Math.max(fact.value / 100, fact.unit === "1" && fact.key.endsWith("size") ? 1 : 0), top], scale: [unit, size], whole: fact.key.endsWith("size"), straight: false, empty: "" };
        const known = this.rows.get("device." + fact.key);
        if (known) { known.field = field; this.document("device." + fact.key); }
        else this.add(field, "device", false);
      }
      this.show();
    }
  };
})();
