// Records of a topic: pages from any place on, a search that goes through all, one record in full, and sending.

import * as api from "./api.js";
import { h, fill, field, choice, error, badge } from "./dom.js";
import { bytes, count, plural, when } from "./format.js";
import { table } from "./table.js";
import { openRecord } from "./record.js";
import { sending } from "./sending.js";

const MATCHES = 100;
const OPERATORS = ["exists", "=", "!=", "<", "<=", ">", ">=", "contains"].map((each) => [each, each]);

export function preview(shown) {
  if (shown === null) return h("span", { class: "dim" }, "null");
  if (!shown.text && !shown.bytes) return h("span", { class: "dim" }, "empty");
  return shown.text.slice(0, 300);
}

export function recordTable(name, label, empty) {
  return table({
    label,
    key: (row) => `${row.partition}-${row.offset}`,
    empty,
    columns: [
      { title: "Offset", width: 10, kind: "number", header: true, cell: (row) => h("button", { class: "plain",
        "aria-label": `Record at offset ${row.offset} of partition ${row.partition}`,
        onclick: () => openRecord(name, row.partition, row.offset) }, String(row.offset)) },
      { title: "Partition", width: 8, kind: "number", cell: (row) => String(row.partition) },
      { title: "Time (UTC)", width: 23, minor: true, cell: (row) => when(row.timestamp_ms) },
      { title: "Key", width: 14, minor: true, cell: (row) => preview(row.key) },
      { title: "Value", cell: (row) => preview(row.value) },
      { title: "Size", width: 7, kind: "number", minor: true,
        cell: (row) => bytes((row.key ? row.key.bytes : 0) + (row.value ? row.value.bytes : 0)) },
      { title: "Transaction", width: 11, minor: true, cell: (row) => transaction(row.transaction) },
    ],
  });
}

export function transaction(state) {
  if (!state) return "";
  return badge(state, { committed: "good", aborted: "bad", open: "storm" }[state]);
}

export async function records(name, body, context) {
  const { signal, query } = context;
  const topic = api.part(name);
  const { partitions } = await api.get(`topics/${topic}`, {}, signal);
  const partition = choice([["", "all"], ...partitions.map((each) => [String(each.partition),
    String(each.partition)])], query.partition || "");
  const start = choice([["newest", "the newest"], ["oldest", "the oldest"], ["offset", "an offset"],
    ["time", "a time"]], "newest", { onchange: adapt });
  const at = h("input", { type: "number", min: "0", value: "0" });
  const time = h("input", { type: "datetime-local", step: "1" });
  const atField = field("Offset", at);
  const timeField = field("Time (UTC)", time);
  const told = h("p", { class: "dim", role: "status" });
  const errors = h("div");
  const list = recordTable(name, `Records of ${name}`, "No records here.");
  const older = h("button", { type: "button" }, "Older");
  const newer = h("button", { type: "button" }, "Newer");
  let page = {};
  // The last question alone is answered: an older one may take longer.
  let asked = 0;

  function adapt() {
    atField.hidden = start.value !== "offset";
    timeField.hidden = start.value !== "time";
  }

  async function look(more) {
    const mine = asked += 1;
    fill(errors);
    fill(told, "Reading");
    let found = null;
    try {
      found = await api.get(`topics/${topic}/records`, { partition: partition.value, ...more }, signal);
    } catch (problem) {
      if (signal.aborted || mine !== asked) return;
      fill(told);
      fill(errors, error(problem.message));
      return;
    }
    if (mine !== asked) return;
    page = found;
    fill(told, plural(page.records.length, "record"), ` of ${plural(page.offsets, "offset")}`,
      page.leaderless ? `; ${plural(page.leaderless, "partition")} without a leader cannot be read` : "");
    fill(errors, page.errors.map((each) => error(each)));
    list.update(page.records);
    list.element.scrollTop = 0;
    older.disabled = !page.older;
    newer.disabled = !page.newer;
  }

  function read(event) {
    if (event) event.preventDefault();
    const wanted = { start: start.value };
    if (start.value === "offset") wanted.at = at.value || 0;
    if (start.value === "time") wanted.at = since(time.value) || 0;
    return look(wanted);
  }

  const cursor = (place) => Object.entries(place).map(([each, offset]) => `${each}:${offset}`).join(",");
  older.addEventListener("click", () => look({ start: "cursor", cursor: cursor(page.older), backward: true }));
  newer.addEventListener("click", () => look({ start: "cursor", cursor: cursor(page.newer) }));
  adapt();
  fill(body,
    h("form", { class: "bar", onsubmit: read }, field("Partition", partition), field("From", start), atField, timeField,
      h("button", {}, "Read"), older, newer, h("button", { type: "button", onclick: () =>
        api.download(`topics/${topic}/export`, { partition: partition.value })
          .catch((problem) => fill(errors, error(problem.message))) }, "Export")),
    told, errors, list.element,
    searching(name, () => partition.value, signal),
    !api.current().read_only && sending(name, partitions.length, () => read()));
  await read();
}

const since = (text) => (text ? Date.parse(`${text}Z`) : undefined);

function searching(name, partition, left) {
  const inputs = {
    key: h("input", { type: "search" }),
    value: h("input", { type: "search" }),
    header: h("input", { type: "search", placeholder: "name, or name=text" }),
    path: h("input", { type: "search", placeholder: "$.customer.id" }),
    operator: choice(OPERATORS, "="),
    operand: h("input", { type: "search" }),
    since: h("input", { type: "datetime-local", step: "1" }),
  };
  const regex = h("input", { type: "checkbox" });
  const go = h("button", {}, "Search");
  const stop = h("button", { type: "button", disabled: true, onclick: () => running && running.abort() }, "Stop");
  const more = h("button", { type: "button", hidden: true, onclick: () => run(cursor) }, "Search on");
  const bar = h("progress", { value: "0", max: "1", "aria-label": "How far the search has come", hidden: true });
  const told = h("p", { role: "status", class: "dim" });
  const errors = h("div");
  const list = recordTable(name, "Records found", "Nothing was found.");
  const place = h("div", { hidden: true }, list.element);
  let running = null;
  let cursor = null;
  let matches = [];
  left.addEventListener("abort", () => running && running.abort());

  function progress(at, how) {
    bar.max = Math.max(at.offsets_total, 1);
    bar.value = at.offsets_total ? at.offsets : 1;
    fill(told, `${how}: ${plural(matches.length, "match").replace("matchs", "matches")} in ${count(at.records)} records, `,
      `${bytes(at.bytes)}, ${at.seconds.toFixed(1)} s`);
  }

  async function run(from) {
    if (running) running.abort();
    const mine = running = new AbortController();
    if (!from) matches = [];
    fill(errors);
    more.hidden = true;
    bar.hidden = place.hidden = false;
    go.disabled = true;
    stop.disabled = false;
    let due = false;
    let last = null;
    const draw = () => {
      due = false;
      list.update(matches);
    };
    try {
      await api.stream(`topics/${api.part(name)}/search`, {
        partition: partition(), key: inputs.key.value, value: inputs.value.value, header: inputs.header.value,
        path: inputs.path.value, operator: inputs.path.value && inputs.operator.value,
        operand: inputs.path.value && inputs.operand.value, since_ms: since(inputs.since.value),
        key_regex: regex.checked || "", value_regex: regex.checked || "", limit: MATCHES,
        cursor: from && Object.entries(from).map(([each, offset]) => `${each}:${offset}`).join(","),
      }, mine.signal, (line) => {
        if (line.match) {
          matches.push(line.match);
          if (!due) {
            due = true;
            requestAnimationFrame(draw);
          }
        }
        if (line.progress) progress(last = line.progress, "Searching");
        if (line.error) errors.append(error(line.error));
        if (line.end) {
          cursor = line.end.cursor;
          const missing = line.end.unsearched;
          progress(last = line.end, line.end.is_done ? "Done" : missing.length
            ? `Ended, and not all was searched in ${missing.length === 1 ? `partition ${missing[0]}` : plural(missing.length, "partition")}`
            : `Stopped at ${MATCHES} matches`);
          more.hidden = line.end.is_done;
        }
      });
    } catch (problem) {
      if (problem.name !== "AbortError") fill(errors, error(problem.message));
      else if (last) progress(last, "Stopped");
    } finally {
      if (running === mine) {
        draw();
        go.disabled = false;
        stop.disabled = true;
        running = null;
      }
    }
  }

  return h("details", {}, h("summary", {}, "Search"), h("form", { onsubmit: (event) => {
    event.preventDefault();
    run(null);
  } }, h("p", { class: "dim" }, "A record must match all fields that are filled in. The partition is the one chosen above."),
  h("div", { class: "bar" }, field("Key contains", inputs.key), field("Value contains", inputs.value),
    field("as regular expressions", regex, { class: "check" }), field("Header", inputs.header),
    field("JSON path in the value", inputs.path), field("Comparison", inputs.operator), field("with", inputs.operand),
    field("Since (UTC)", inputs.since), go, stop, more)), bar, told, errors, place);
}
