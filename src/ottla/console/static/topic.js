// One topic: its partitions, records, producers and settings; of a served cluster also its logs.

import * as api from "./api.js";
import { h, fill, renew, facts, once, single, error, badge } from "./dom.js";
import { age, bytes, count, when } from "./format.js";
import { table } from "./table.js";
import { configs } from "./configs.js";
import { records } from "./records.js";
import { logs } from "./logs.js";

const SHOWN = { records, partitions, producers, settings, logs };
const PARTS = { records: "Records", partitions: "Partitions", producers: "Producers", settings: "Settings" };

export async function topic(context) {
  const { place, places } = context;
  const [name, part = "records"] = places;
  const parts = api.current().is_served ? { ...PARTS, logs: "Logs" } : PARTS;
  const body = h("div", {}, h("p", { class: "dim" }, "Loading"));
  fill(place, h("h1", {}, name), h("nav", { "aria-label": "Parts of the topic" }, Object.entries(parts).map(
    ([each, title]) => h("a", { href: `#/topic/${api.part(name)}/${each}`,
      "aria-current": each === part ? "page" : null }, title))), body);
  try {
    await (Object.hasOwn(SHOWN, part) ? SHOWN[part] : records)(name, body, context);
  } catch (problem) {
    if (context.signal.aborted || problem.status === 401) throw problem;
    if (!(problem instanceof api.Refused)) throw problem;
    fill(body, error(problem.message, context.again));
  }
}

async function partitions(name, body, { signal, every, say }) {
  const told = h("div");
  const list = table({
    label: `Partitions of ${name}`,
    key: (row) => row.partition,
    columns: [
      { title: "Partition", width: 9, narrow: 7.5, kind: "number", header: true, value: (row) => row.partition,
        cell: (row) => String(row.partition) },
      { title: "Leader", width: 7, narrow: 6, kind: "number", value: (row) => row.leader,
        cell: (row) => row.leader === null ? badge("none", "bad") : String(row.leader) },
      { title: "Epoch", width: 6, kind: "number", minor: true, value: (row) => row.leader_epoch,
        cell: (row) => count(row.leader_epoch) },
      { title: "Replicas", width: 12, minor: true, cell: (row) => row.replicas.join(", ") },
      { title: "ISR", value: (row) => row.isr.length, cell: (row) => row.isr.length < row.replicas.length
        ? h("span", { class: "storm" }, `${row.isr.join(", ")} of ${row.replicas.length}`) : row.isr.join(", ") },
      { title: "Log start", width: 13, kind: "number", minor: true, value: (row) => row.log_start_offset,
        cell: (row) => count(row.log_start_offset) },
      { title: "High watermark", width: 13, narrow: 8.5, kind: "number", value: (row) => row.high_watermark,
        cell: (row) => count(row.high_watermark) },
      { title: "Last stable offset", width: 13, kind: "number", minor: true, value: (row) => row.last_stable_offset,
        cell: (row) => row.last_stable_offset < row.high_watermark
          ? h("span", { class: "storm" }, count(row.last_stable_offset)) : count(row.last_stable_offset) },
      { title: "Log end offset", width: 13, kind: "number", minor: true, value: (row) => row.log_end_offset,
        cell: (row) => row.log_end_offset > row.high_watermark
          ? h("span", { class: "storm" }, count(row.log_end_offset)) : count(row.log_end_offset) },
      { title: "Stored", width: 9, kind: "number", minor: true, value: (row) => row.bytes,
        cell: (row) => bytes(row.bytes) },
    ],
  });

  async function look() {
    const found = await api.get(`topics/${api.part(name)}`, {}, signal);
    const sum = (of) => found.partitions.reduce((all, each) => all + (of(each) || 0), 0);
    renew(told, facts({ "Topic id": found.id, Partitions: count(found.partitions.length),
      Offsets: count(sum((each) => each.high_watermark - each.log_start_offset)),
      "Stored by leaders": found.sizes_untold ? null : bytes(sum((each) => each.bytes)) }),
    found.sizes_untold && h("p", { class: "warning" }, `Sizes are unknown: ${found.sizes_untold}`));
    list.update(found.partitions);
  }

  await look();
  fill(body, told, list.element, !api.current().read_only && deleting(name, say, signal));
  every(3, look);
}

function deleting(name, say, signal) {
  const typed = h("input", { autocomplete: "off" });
  const button = h("button", { class: "danger", disabled: true }, "Delete the topic");
  typed.addEventListener("input", () => {
    button.disabled = typed.value !== name;
  });
  return h("details", {}, h("summary", {}, "Delete this topic"), h("form", { class: "bar", onsubmit: once(async () => {
    try {
      await api.remove(`topics/${api.part(name)}`);
      if (!signal.aborted) location.hash = "#/topics";
      else say(`Topic ${name} is deleted.`);
    } catch (problem) {
      say(problem.message, "error");
    }
  }) }, h("label", { class: "grow" }, "Type its name: all its records are deleted, too", typed), button));
}

async function producers(name, body, { signal, every, say }) {
  const told = h("div");
  let now = 0;
  const list = producerTable(`Producers of ${name}`, () => now, look, say);

  const ask = api.inOrder(() => api.get(`topics/${api.part(name)}/producers`, {}, signal));

  async function look() {
    const found = await ask();
    if (!found) return;
    now = found.now_ms;
    renew(told, h("p", { class: "dim" }, "What the leaders remember of idempotent and transactional producers."),
      found.untold.map((each) => h("p", { class: "warning" }, each)));
    list.update(found.producers);
  }

  await look();
  fill(body, told, list.element);
  every(3, look);
}

export function producerTable(label, now, look, say, withTopic = false) {
  return table({
    label,
    key: (row) => `${row.topic}-${row.partition}-${row.producer_id}`,
    empty: "No producer with an id has written here lately.",
    columns: [
      { title: "Producer id", width: 12, narrow: 7, kind: "number", header: true, value: (row) => row.producer_id,
        cell: (row) => String(row.producer_id) },
      { title: withTopic ? "Topic-partition" : "Partition", width: withTopic ? undefined : 9, narrow: 7.5,
        value: (row) => withTopic ? row.topic : row.partition,
        cell: (row) => withTopic ? `${row.topic}-${row.partition}` : String(row.partition) },
      { title: "Epoch", width: 6, narrow: 5, kind: "number", value: (row) => row.epoch, cell: (row) => String(row.epoch) },
      { title: "Last sequence", width: 12, kind: "number", minor: true, value: (row) => row.last_sequence,
        cell: (row) => count(row.last_sequence) },
      { title: "Last record (UTC)", width: 23, minor: true, value: (row) => Number(row.last_timestamp_ms),
        cell: (row) => when(row.last_timestamp_ms) },
      { title: "Open transaction", width: 24, narrow: 10, value: (row) => row.transaction_offset, cell: (row) => transaction(row) },
    ],
  });

  function transaction(row) {
    if (row.transaction_offset === null) return "";
    const since = `since offset ${count(row.transaction_offset)}`;
    if (!row.hangs) return since;
    return h("span", {}, badge("hangs", "bad"), ` ${age(now() - row.last_timestamp_ms)} `, !api.current().read_only &&
      h("button", { class: "plain", "aria-label": `Abort the hanging transaction ${since} of producer ${row.producer_id}`,
        onclick: single(async () => {
          try {
            await api.post("producers/abort", row);
            say(`The transaction of producer ${row.producer_id} is aborted.`);
            await look();
          } catch (problem) {
            // AbortError: the view was left.
            if (problem.name !== "AbortError") say(problem.message, "error");
          }
        }) }, "Abort"));
  }
}

async function settings(name, body, { signal }) {
  fill(body, configs((await api.get(`topics/${api.part(name)}/configs`, {}, signal)).configs, `Settings of ${name}`));
}
