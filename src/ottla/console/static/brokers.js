// Brokers: where they are, what they lead, what they store, their settings.

import * as api from "./api.js";
import { h, fill, renew, facts, error, badge } from "./dom.js";
import { bytes, count } from "./format.js";
import { table } from "./table.js";
import { configs } from "./configs.js";

export async function brokers({ place, signal, every }) {
  const told = h("div");
  const settings = h("div");
  const list = table({
    label: "Brokers",
    key: (row) => row.id,
    columns: [
      { title: "Broker", width: 13, narrow: 9, header: true, value: (row) => row.id, cell: (row) => h("span", {}, String(row.id),
        row.is_controller && [" ", badge("controller")]) , kind: "" },
      { title: "Address", value: (row) => row.host, cell: (row) => h("span", {},
        `${row.host}:`, h("wbr"), String(row.port)) },
      { title: "Rack", width: 10, minor: true, value: (row) => row.rack, cell: (row) => row.rack || "" },
      { title: "Leads", width: 8, narrow: 5, kind: "number", value: (row) => row.leads, cell: (row) => count(row.leads) },
      { title: "Replicas", width: 9, kind: "number", minor: true, value: (row) => row.replicas,
        cell: (row) => count(row.replicas) },
      { title: "Stored", width: 10, kind: "number", minor: true, value: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
      { title: "Disk free", width: 10, kind: "number", minor: true, value: (row) => free(row),
        cell: (row) => bytes(free(row)) },
      { title: "Settings", width: 9, narrow: 7, cell: (row) => h("button", { class: "plain", onclick: () => open(row.id),
        "aria-label": `Settings of broker ${row.id}` }, "Show") },
    ],
  });

  function free(row) {
    const known = row.log_dirs.map((each) => each.usable_bytes).filter((each) => each !== null);
    return known.length ? Math.min(...known) : null;
  }

  // Counts the requests: only the answer to the last one is shown.
  let wanted = 0;

  async function open(id) {
    const mine = wanted += 1;
    fill(settings, h("h2", {}, `Settings of broker ${id}`), h("p", { class: "dim" }, "Loading"));
    try {
      const found = await api.get(`brokers/${id}/configs`, {}, signal);
      if (mine !== wanted) return;
      fill(settings, h("h2", { tabIndex: -1 }, `Settings of broker ${id}`),
        configs(found.configs, `Settings of broker ${id}`));
      settings.firstChild.focus();
    } catch (problem) {
      if (mine === wanted) fill(settings, error(problem.message));
    }
  }

  async function look() {
    const found = await api.get("brokers", {}, signal);
    const broken = found.brokers.flatMap((each) => each.log_dirs.filter((dir) => dir.error)
      .map((dir) => `Broker ${each.id}: the folder ${dir.path} has failed (${dir.error}).`));
    renew(told, facts({ "Cluster id": found.cluster_id, Controller: found.controller_id === null ? null
      : String(found.controller_id), Brokers: count(found.brokers.length) }),
    found.missing.length > 0 && h("p", { class: "warning" },
      `Replicas are assigned to brokers that are not there: ${found.missing.join(", ")}.`),
    found.sizes_untold && h("p", { class: "warning" }, `Sizes are unknown: ${found.sizes_untold}`),
    broken.map((each) => h("p", { class: "error" }, each)));
    list.update(found.brokers.map((each) => ({ ...each, is_controller: each.id === found.controller_id })));
  }

  await look();
  fill(place, h("h1", {}, "Brokers"), told, list.element, settings);
  every(5, look);
}
