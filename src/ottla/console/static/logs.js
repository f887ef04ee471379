// The logs of a served cluster's topic, live: each replica's end, high watermark, what is synced and in the page cache,
// and the window by which a batch that is sent again is recognised.

import * as api from "./api.js";
import { h, fill, renew, badge, shown } from "./dom.js";
import { bytes, count, plural } from "./format.js";

const PARTITIONS_SHOWN = 12;
const PRODUCERS_SHOWN = 5;

export async function logs(name, body, { signal }) {
  const errors = h("div");
  const place = h("div");
  const view = logView(name);
  fill(body, h("p", { class: "dim" }, "Refreshed 10 times a second, the page cache once. Light bar: in the log. Dark bar: synced to the disk. ",
    "Line: high watermark."), errors, fill(place, view.element));
  await api.get(`served/topics/${api.part(name)}`, {}, signal);
  watch({ topic: name }, signal, (changed) => {
    if (changed.logs) view.update(changed.logs);
    // A stream that was opened again begins with the logs.
    if ("error" in changed || changed.logs) tell(changed.error);
  });

  function tell(problem) {
    place.inert = Boolean(problem);
    fill(errors, problem && [h("p", { class: "error" }, problem), h("p", {}, "What is shown below is old.")]);
  }
}

// Follow what is live for as long as the view is looked at; a stream that breaks is opened again. A tab that is hidden
// has none: a browser opens six connections to one address, and other tabs need them.
export async function watch(query, signal, take) {
  while (!signal.aborted) {
    await shown(signal);
    const hidden = new AbortController();
    const look = () => (document.hidden || signal.aborted) && hidden.abort();
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
    try {
      await api.stream("served/live", query, hidden.signal, take);
    } catch (problem) {
      if (signal.aborted) return;
      if (!hidden.signal.aborted) take({ error: problem.message });
    } finally {
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
    }
    if (hidden.signal.aborted) continue;
    await new Promise((done) => {
      setTimeout(done, 1000);
    });
  }
}

export function logView(name) {
  const element = h("div");
  const rows = new Map();

  function update(found) {
    if (found.error) {
      rows.clear();
      fill(element, h("p", { class: "error" }, found.error));
      return;
    }
    const parts = found.partitions.slice(0, PARTITIONS_SHOWN);
    if (rows.size !== parts.length || !element.firstChild || element.firstChild.className === "error") {
      rows.clear();
      fill(element, parts.map((part) => {
        const made = { head: h("h3", {}), log: h("div", { class: "log" }), window: h("div") };
        rows.set(part.partition, made);
        return h("section", { class: "card" }, made.head, made.log, made.window);
      }), found.partitions.length > PARTITIONS_SHOWN && h("p", { class: "dim" },
        `${plural(found.partitions.length - PARTITIONS_SHOWN, "more partition")} not shown here.`));
    }
    for (const part of parts) one(part, rows.get(part.partition), found.logs);
  }

  function one(part, { head, log, window }, all) {
    renew(head, `${name}-${part.partition}, leader `, part.leader === null ? badge("none", "bad") : String(part.leader),
      `, epoch ${part.leader_epoch}, ISR ${part.isr.join(", ")}`);
    const of = new Map(all.filter((each) => each.partition === part.partition).map((each) => [each.broker, each]));
    const states = [...part.replicas].sort((left, right) => left.broker - right.broker);
    const end = Math.max(1, ...states.map((each) => each.log_end_offset));
    const begin = Math.min(end, ...states.map((each) => each.log_start_offset));
    const share = (offset) => `${end === begin ? 0 : 100 * (offset - begin) / (end - begin)}%`;
    renew(log, states.map((state) => {
      const inside = of.get(state.broker);
      const written = h("i");
      const synced = h("i", { class: "synced" });
      const mark = h("b");
      written.style.width = share(state.log_end_offset);
      synced.style.width = share(inside ? inside.synced_offset : begin);
      mark.style.left = share(state.high_watermark);
      return [h("span", {}, `broker ${state.broker}`, state.is_leader ? " (leader)" : ""),
        h("div", { class: "track", "aria-hidden": "true" }, written, synced, mark),
        h("div", { class: "words" }, words(state, inside))];
    }));
    const leader = of.get(part.leader);
    renew(window, leader && leader.producers.length > 0 && [h("p", { class: "dim" },
      "The last batches, by which the leader recognises one that is sent again: first to last sequence number, at base offset:"),
    leader.producers.slice(0, PRODUCERS_SHOWN).map((producer) => h("div", {}, `producer ${producer.producer_id}, epoch `,
      `${producer.epoch}${producer.transaction_offset === null ? "" : `, transaction open since offset ${
        producer.transaction_offset}`}`, h("ul", { class: "window" }, producer.batches.map(([first, last, base]) =>
        h("li", {}, `${first === last ? first : `${first} to ${last}`} at ${base}`))))),
    leader.producers.length > PRODUCERS_SHOWN && h("p", { class: "dim" },
      `${plural(leader.producers.length - PRODUCERS_SHOWN, "more producer")} of this partition not shown here.`)]);
  }

  function words(state, inside) {
    const told = [`end ${count(state.log_end_offset)}`, `high watermark ${count(state.high_watermark)}`,
      `last stable ${count(state.last_stable_offset)}`];
    if (inside) {
      const sum = (field) => inside.files.reduce((all, each) => all + (each[field] || 0), 0);
      told.splice(1, 0, `synced ${count(inside.synced_offset)}`);
      told.push(`${inside.files.length} ${inside.files.length === 1 ? "file" : "files"}, ${bytes(sum("bytes"))}, synced ${
        bytes(sum("synced_bytes"))}`);
      if (inside.files.every((each) => each.resident_bytes !== null)) {
        told.push(`in the page cache ${bytes(sum("resident_bytes"))}`);
      }
    }
    return told.join("; ");
  }

  return { element, update };
}
