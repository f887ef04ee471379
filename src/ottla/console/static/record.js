// One record in full, in a dialog.

import * as api from "./api.js";
import { h, fill, facts, once, error } from "./dom.js";
import { download } from "./downloads.js";
import { bytes, count, indented, plural, when } from "./format.js";
import { transaction } from "./records.js";

// Until the view behind it is left; `closed` is called when it is closed.
export async function openRecord(name, partition, offset, left, closed) {
  const body = h("div", {}, h("p", { class: "dim" }, "Reading"));
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog", { "aria-label": `Record at offset ${offset} of ${name}-${partition}` },
    h("h2", {}, `${name}-${partition} at offset ${offset}`), body, close);
  const leave = () => dialog.close();
  dialog.addEventListener("close", () => {
    left.removeEventListener("abort", leave);
    dialog.remove();
    closed();
  });
  left.addEventListener("abort", leave);
  document.body.append(dialog);
  dialog.showModal();
  try {
    fill(body, full(name, await api.get(`topics/${api.part(name)}/records/${partition}/${offset}`)));
  } catch (problem) {
    fill(body, error(problem.message));
  }
}

const ENDINGS = {
  committed: "read_committed shows it",
  aborted: "read_committed leaves it out",
  open: "read_committed waits in front of it",
  unknown: "how it ended is not known now",
};

function full(name, record) {
  const batch = record.batch || {};
  return [
    facts({ "Time (UTC)": Number(record.timestamp_ms) === -1 ? when(record.timestamp_ms)
      : `${when(record.timestamp_ms)} (${record.timestamp_type})`,
      Transaction: record.transaction ? h("span", {}, transaction(record.transaction), " ",
        ENDINGS[record.transaction]) : "in none" }),
    part(name, record, "key", "Key"), part(name, record, "value", "Value"),
    h("h3", {}, "Headers"), record.headers.length ? h("dl", { class: "facts" }, record.headers.map((each) =>
      h("div", {}, h("dt", {}, each.name), h("dd", { class: "mono" }, each.value === null || !each.value.bytes
        ? h("span", { class: "dim" }, each.value === null ? "null" : "empty") : each.value.text))))
      : h("p", { class: "dim" }, "none"),
    record.headers_more > 0 && h("p", { class: "dim" }, `and ${plural(record.headers_more, "more header")}; an export has all of them`),
    h("h3", {}, "Its batch"), facts({ Offsets: `${batch.base_offset} to ${batch.last_offset}`,
      Records: count(batch.records), Size: bytes(batch.bytes), Compression: batch.compression,
      "Leader epoch": String(batch.leader_epoch), "Producer id": none(batch.producer_id),
      "Producer epoch": none(batch.producer_epoch), Sequence: none(batch.sequence) }),
  ];
}

const none = (value) => (value === null ? "none" : String(value));

function part(name, record, which, title) {
  const shown = record[which];
  if (shown === null) return [h("h3", {}, title), h("p", { class: "dim" }, "null")];
  const refused = h("div");
  const notes = [bytes(shown.bytes), `shown as ${shown.as}`, shown.cut && (shown.shown_bytes === null
    ? "only the beginning of it" : `only the first ${bytes(shown.shown_bytes)}`)];
  return [
    h("h3", {}, title), h("p", { class: "dim" }, notes.filter(Boolean).join(", "), " ",
      h("button", { class: "plain", "aria-label": `Download the ${which}`, onclick: once(() =>
        download(`topics/${api.part(name)}/records/${record.partition}/${record.offset}/${which}`)
          .then(() => fill(refused), (problem) => fill(refused, error(problem.message)))) }, "Download")), refused,
    shown.error && h("p", { class: "warning" }, `It cannot be decoded: ${shown.error}`),
    h("pre", { tabIndex: 0, "aria-label": title }, pretty(shown)),
  ];
}

function pretty(shown) {
  if (shown.cut || shown.as === "hex") return shown.text;
  try {
    return typeof JSON.parse(shown.text) === "object" ? indented(shown.text) : shown.text;
  } catch {
    return shown.text;
  }
}
