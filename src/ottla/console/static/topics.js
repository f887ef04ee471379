// All topics, a row each; sizes come a moment later.

import * as api from "./api.js";
import { h, fill, renew, field, once, error, badge } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { table } from "./table.js";

const of = (all, name) => (Object.hasOwn(all, name) ? all[name] : undefined);

export async function topics({ place, query, signal, every, remember, say }) {
  let all = [];
  let sizes = { offsets: {}, bytes: {} };
  const wanted = h("input", { type: "search", placeholder: "part of a name", value: query.name || "",
    oninput: narrow });
  const internal = h("input", { type: "checkbox", checked: query.internal === "yes", onchange: narrow });
  const number = h("span", { class: "dim" });
  const warning = h("div");
  const list = table({
    label: "Topics",
    key: (row) => row.name,
    sorted: "Topic",
    empty: () => wanted.value ? "No topic has this text in its name." : "There are no topics yet.",
    columns: [
      { title: "Topic", header: true, value: (row) => row.name, cell: (row) =>
        h("a", { href: `#/topic/${api.part(row.name)}`, title: row.name }, row.name) },
      { title: "Partitions", width: 9, narrow: 8, kind: "number", value: (row) => row.partitions,
        cell: (row) => count(row.partitions) },
      { title: "Replicas", width: 9, kind: "number", minor: true, value: (row) => row.replication,
        cell: (row) => count(row.replication) },
      { title: "Offsets", width: 13, kind: "number", minor: true, value: (row) => of(sizes.offsets, row.name),
        cell: (row) => count(of(sizes.offsets, row.name)) },
      { title: "Stored", width: 10, kind: "number", minor: true, value: (row) => of(sizes.bytes, row.name),
        cell: (row) => bytes(of(sizes.bytes, row.name)) },
      { title: "State", width: 18, narrow: 9, value: (row) => -(row.leaderless * 1e6 + row.under_replicated), cell: health },
    ],
  });

  function health(row) {
    if (row.leaderless) return badge(`${count(row.leaderless)} without leader`, "bad");
    if (row.under_replicated) return badge(`${count(row.under_replicated)} under-replicated`, "storm");
    return h("span", { class: "good" }, "in sync");
  }

  function narrow() {
    draw();
    remember(["topics"], { name: wanted.value.trim(), internal: internal.checked && "yes" });
  }

  function draw() {
    const text = wanted.value.trim().toLowerCase();
    const rows = all.filter((row) => (internal.checked || !row.internal) && row.name.toLowerCase().includes(text));
    renew(number, plural(rows.length, "topic"), ", ",
      plural(rows.reduce((sum, row) => sum + row.partitions, 0), "partition"));
    list.update(rows);
  }

  const ask = api.inOrder(() => api.get("topics", {}, signal));
  const askSizes = api.inOrder(() => api.get("topic-sizes", {}, signal));

  async function look() {
    const found = await ask();
    if (!found) return;
    all = found.topics;
    draw();
  }

  async function measure() {
    try {
      const found = await askSizes();
      if (!found) return;
      sizes = found;
      renew(warning, sizes.sizes_untold && h("p", { class: "warning" }, `Sizes are unknown: ${sizes.sizes_untold}`));
      draw();
    } catch (problem) {
      if (!signal.aborted) fill(warning, error(problem.message));
    }
  }

  await look();
  fill(place, h("h1", {}, "Topics"),
    h("div", { class: "bar" }, field("Name contains", wanted, { class: "grow" }),
      field("Show internal topics", internal, { class: "check" }), number),
    warning, list.element, !api.current().read_only && creating(() => Promise.all([look(), measure()]), say));
  measure();
  every(5, look);
  every(15, measure);
}

function creating(look, say) {
  const name = h("input", { required: true, maxLength: 249 });
  const partitions = h("input", { type: "number", min: "1", value: "1", required: true });
  const replicas = h("input", { type: "number", min: "1", placeholder: "the brokers' default" });
  const errors = h("div");
  return h("details", {}, h("summary", {}, "Create a topic"), h("form", { class: "bar", onsubmit: once(async () => {
    fill(errors);
    const typed = name.value;
    const made = typed.trim();
    try {
      await api.post("topics", { name: made, partitions: Number(partitions.value),
        replication_factor: replicas.value ? Number(replicas.value) : null });
      say(`Topic ${made} is there.`);
      // The user may have typed the next name meanwhile.
      if (name.value === typed) name.value = "";
      await look();
    } catch (problem) {
      fill(errors, error(problem.message));
    }
  }) }, field("Name", name), field("Partitions", partitions), field("Replicas", replicas),
  h("button", {}, "Create")), errors);
}
