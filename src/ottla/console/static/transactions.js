// Transactions: what coordinators know, and producers in all partitions, hanging transactions among them.

import * as api from "./api.js";
import { h, fill, renew, error, badge } from "./dom.js";
import { age, count, plural, quoted, when } from "./format.js";
import { table } from "./table.js";
import { producerTable } from "./topic.js";

export async function transactions({ place, signal, every, say }) {
  let now = 0;
  const told = h("p", { class: "dim" });
  const list = table({
    label: "Transactional ids",
    key: (row) => row.transactional_id,
    empty: "No transactional id is in use.",
    columns: [
      { title: "Transactional id", narrow: 11.5, header: true, value: (row) => row.transactional_id,
        cell: (row) => row.transactional_id },
      { title: "State", width: 15, narrow: 8.5, value: (row) => row.state, cell: (row) =>
        row.started_ms === null ? row.state : badge(row.state, "storm") },
      { title: "Open for", width: 9, narrow: 5, kind: "number", value: (row) => row.started_ms && now - row.started_ms,
        cell: (row) => row.started_ms === null ? "" : age(now - row.started_ms) },
      { title: "Producer id", width: 11, kind: "number", minor: true, value: (row) => row.producer_id,
        cell: (row) => String(row.producer_id) },
      { title: "Epoch", width: 6, kind: "number", minor: true, value: (row) => row.epoch,
        cell: (row) => String(row.epoch) },
      { title: "Timeout", width: 9, kind: "number", minor: true, value: (row) => row.timeout_ms,
        cell: (row) => age(row.timeout_ms) },
      { title: "Since (UTC)", width: 23, minor: true, value: (row) => row.started_ms, cell: (row) => when(row.started_ms) },
      { title: "Partitions", minor: true, value: (row) => row.partitions.length, cell: (row) => row.partitions.join(", ") },
      { title: "End it", width: 8, narrow: 5.5, cell: (row) => row.started_ms === null || api.current().read_only ? "" :
        h("button", { class: "plain", "aria-label": `End the transaction of ${row.transactional_id}`,
          onclick: () => end(row.transactional_id) }, "Fence") },
    ],
  });
  const hanging = h("div");
  const producers = producerTable("Producers of all partitions", () => now, lookAtProducers, say, true);

  async function end(id) {
    if (!confirm(`Fence the producer of ${quoted(id)}? What it has open is aborted, and it can send nothing more.`)) return;
    try {
      await api.post("transactions/end", { transactional_id: id });
      say(`The producer of ${quoted(id)} is fenced.`);
      await look();
    } catch (problem) {
      // AbortError: the view was left.
      if (problem.name !== "AbortError") say(problem.message, "error");
    }
  }

  const ask = api.inOrder(() => api.get("transactions", {}, signal));
  const askProducers = api.inOrder(() => api.get("producers", {}, signal));

  async function look() {
    const found = await ask();
    if (!found) return;
    now = found.now_ms;
    const open = found.transactions.filter((each) => each.started_ms !== null).length;
    renew(told, `${plural(found.transactions.length, "transactional id")}, ${count(open)} open`);
    list.update(found.transactions);
  }

  async function lookAtProducers() {
    try {
      const found = await askProducers();
      if (!found) return;
      const lost = found.producers.filter((each) => each.hangs);
      renew(hanging, h("p", { class: lost.length ? "error" : "dim" }, lost.length ? `${plural(lost.length, "transaction")} ` +
        "hanging: no coordinator knows of it, and read_committed waits in front of it." : "No transaction hangs."),
      h("p", { class: "dim" }, `Only transactions without a new record for ${age(found.longest_ms)} are looked at`,
        found.longest_is_known ? " (transaction.max.timeout.ms)." : "; the brokers did not say what transaction.max.timeout.ms is."),
      found.hanging_untold && h("p", { class: "warning" }, found.hanging_untold),
      found.untold.slice(0, 5).map((each) => h("p", { class: "warning" }, each)));
      producers.update(found.producers);
    } catch (problem) {
      if (!signal.aborted) fill(hanging, error(problem.message, lookAtProducers));
    }
  }

  await look();
  fill(place, h("h1", {}, "Transactions"), told, list.element, h("h2", {}, "Producers"), hanging, producers.element);
  lookAtProducers();
  every(3, look);
  every(10, lookAtProducers);
}
