// Records of a topic: pages from any place on, a search that goes through all, one record in full, and sending.

import * as api from "./api.js";
import { h, fill, field, choice, offer, once, error, badge } from "./dom.js";
import { bytes, count, plural, timeOf, when } from "./format.js";
import { download } from "./downloads.js";
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

export function recordTable(open, label, empty) {
  return table({
    label,
    key: (row) => `${row.partition}-${row.offset}`,
    empty,
    columns: [
      { title: "Offset", width: 10, narrow: 8, kind: "number", header: true, cell: (row) => h("button", { class: "plain",
        "aria-label": `Record at offset ${row.offset} of partition ${row.partition}`,
        onclick: () => open(row.partition, row.offset) }, String(row.offset)) },
      { title: "Partition", width: 8, narrow: 7.5, kind: "number", cell: (row) => String(row.partition) },
      { title: "Time (UTC)", width: 23, minor: true, cell: (row) => when(row.timestamp_ms) },
      { title: "Key", width: 14, minor: true, cut: true, cell: (row) => preview(row.key) },
      { title: "Value", cut: true, cell: (row) => preview(row.value) },
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
  const { signal, query, places } = context;
  const topic = api.part(name);
  const ask = api.inOrder(() => api.get(`topics/${topic}`, {}, signal));
  const numbers = async () => {
    const found = await ask();
    return found && found.partitions.map(({ partition: each }) => [String(each), String(each)]);
  };
  const first = await numbers();
  const partition = choice([["", "all"], ...first], query.partition || "");
  const target = choice([["", "by the key"], ...first], "");
  const start = choice([["newest", "the newest"], ["oldest", "the oldest"], ["offset", "an offset"],
    ["time", "a time"]], query.from || "newest", { onchange: adapt });
  const at = h("input", { type: "number", min: "0", required: true,
    value: query.from === "offset" && query.at || "0" });
  const time = h("input", { type: "datetime-local", step: "1", max: "9999-12-31T23:59:59",
    value: query.from === "time" && query.at });
  const atField = field("Offset", at);
  const timeField = field("Time (UTC)", time);
  const told = h("p", { class: "dim", role: "status" });
  const errors = h("div");
  const refused = h("div");
  const list = recordTable(open, `Records of ${name}`, "No records here.");
  const older = h("button", { type: "button" }, "Older");
  const newer = h("button", { type: "button" }, "Newer");
  let page = {};
  // The last question alone is answered: an older one may take longer.
  let asked = 0;
  const search = searching(name, { partition: () => partition.value, query, keep, open, left: signal });

  // The address says what is looked at; a record that is open has an address of its own.
  let opened = [];

  function keep() {
    const place = { from: start.value === "newest" ? "" : start.value,
      at: { offset: at.value, time: time.value }[start.value] };
    context.remember(["topic", name, "records", ...opened],
      { partition: partition.value, ...place, ...search.asked() });
  }

  function open(...record) {
    opened = record;
    keep();
    openRecord(name, ...record, signal, () => {
      // This is called late: another record may be open by now.
      if (opened === record) opened = [];
      keep();
    });
  }

  function adapt() {
    atField.hidden = start.value !== "offset";
    timeField.hidden = start.value !== "time";
    // What is hidden is not checked.
    at.disabled = atField.hidden;
    time.disabled = timeField.hidden;
  }

  // The topic may have been made again, with other partitions. If it is gone, the question for its records says so.
  async function offerNumbers() {
    const now = await numbers().catch(() => null);
    if (!now) return;
    offer(partition, [["", "all"], ...now]);
    offer(target, [["", "by the key"], ...now]);
  }

  async function look(more) {
    const mine = asked += 1;
    fill(errors);
    fill(told, "Reading");
    let found = null;
    if (mine > 1) offerNumbers();
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
    try {
      if (start.value === "offset") wanted.at = at.value;
      if (start.value === "time") {
        wanted.at = timeOf(time, "Time (UTC)");
        if (wanted.at === undefined) throw new Error("Time (UTC) is missing: choose a date and a time.");
      }
    } catch (problem) {
      // What is being read is not what is asked for now.
      asked += 1;
      fill(told);
      fill(errors, error(problem.message));
      return null;
    }
    keep();
    return look(wanted);
  }

  const cursor = (place) => Object.entries(place).map(([each, offset]) => `${each}:${offset}`).join(",");
  older.addEventListener("click", () => look({ start: "cursor", cursor: cursor(page.older), backward: true }));
  newer.addEventListener("click", () => look({ start: "cursor", cursor: cursor(page.newer) }));
  adapt();
  fill(body,
    h("form", { class: "bar", onsubmit: read }, field("Partition", partition), field("From", start), atField, timeField,
      h("button", {}, "Read"), older, newer, h("button", { type: "button", onclick: once(() =>
        download(`topics/${topic}/export`, { partition: partition.value })
          .then(() => fill(refused), (problem) => fill(refused, error(problem.message)))) }, "Export")), refused,
    search.element, !api.current().read_only && sending(name, target, () => read(), signal), told, errors, list.element);
  const reading = read();
  const [, , ...record] = places;
  if (record.length === 2 && record.every((each) => /^\d+$/.test(each))) open(...record);
  await reading;
}

function searching(name, { partition, query, keep, open, left }) {
  const text = (of, properties) => h("input", { type: "search", value: query[of] || "", ...properties });
  const inputs = {
    key: text("key"),
    value: text("value"),
    header: text("header", { placeholder: "name, or name=text" }),
    path: text("path", { placeholder: "$.customer.id" }),
    operator: choice(OPERATORS, query.operator || "="),
    operand: text("operand"),
    since: h("input", { type: "datetime-local", step: "1", max: "9999-12-31T23:59:59", value: query.since }),
  };
  const regex = h("input", { type: "checkbox", checked: query.regex === "yes" });
  const go = h("button", {}, "Search");
  const stop = h("button", { type: "button", disabled: true, onclick: () => running && running.abort() }, "Stop");
  const more = h("button", { type: "button", hidden: true, onclick: () => run(cursor) }, "Search on");
  const bar = h("progress", { value: "0", max: "1", "aria-label": "How far the search has come", hidden: true });
  const told = h("p", { role: "status", class: "dim" });
  const errors = h("div");
  const list = recordTable(open, "Records found", () => isWhole ? "Nothing was found." : "Nothing was found so far.");
  const place = h("div", { hidden: true }, list.element);
  let running = null;
  let cursor = null;
  let isWhole = false;
  let searched = "";
  let matches = [];
  let isAsked = Object.keys(inputs).some((each) => query[each]);
  left.addEventListener("abort", () => running && running.abort());

  function progress(at, how) {
    bar.max = Math.max(at.offsets_total, 1);
    bar.value = at.offsets_total ? at.offsets : 1;
    fill(told, `${how}: ${plural(matches.length, "match").replace("matchs", "matches")} in ${count(at.records)} records, `,
      `${bytes(at.bytes)}, ${at.seconds.toFixed(1)} s`);
  }

  // The conditions of the last search, for the address.
  function asked() {
    if (!isAsked) return {};
    const given = Object.fromEntries(Object.entries(inputs).map(([each, input]) => [each, input.value.trim()]));
    if (!given.path) given.operator = given.operand = "";
    return { ...given, regex: regex.checked && "yes" };
  }

  async function run(from) {
    let since;
    try {
      since = timeOf(inputs.since, "Since (UTC)");
    } catch (problem) {
      fill(errors, error(problem.message));
      return;
    }
    if (running) running.abort();
    const mine = running = new AbortController();
    if (!from) {
      matches = [];
      searched = partition();
    }
    isAsked = true;
    isWhole = false;
    keep();
    fill(errors);
    stop.disabled = false;
    // A button that goes away gives the focus to the one that is needed next.
    if (document.activeElement === more) stop.focus();
    more.hidden = true;
    bar.hidden = place.hidden = false;
    let due = false;
    let last = null;
    const draw = () => {
      due = false;
      list.update(matches);
    };
    try {
      await api.stream(`topics/${api.part(name)}/search`, {
        partition: searched, key: inputs.key.value, value: inputs.value.value, header: inputs.header.value,
        path: inputs.path.value, operator: inputs.path.value && inputs.operator.value,
        operand: inputs.path.value && inputs.operand.value, since_ms: since,
        key_regex: regex.checked || "", value_regex: regex.checked || "", limit: MATCHES,
        cursor: from && Object.entries(from).map(([each, offset]) => `${each}:${offset}`).join(","),
      }, mine.signal, (line) => {
        if (running !== mine) return;
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
          isWhole = line.end.is_done;
          // The table shows all matches before the sentence counts them.
          draw();
          const missing = line.end.unsearched;
          progress(last = line.end, line.end.is_done ? "Done" : missing.length && line.end.matches < MATCHES
            ? `Ended, and not all was searched in ${missing.length === 1 ? `partition ${missing[0]}` : plural(missing.length, "partition")}`
            : `Stopped at ${MATCHES} matches`);
          more.hidden = line.end.is_done;
        }
      });
    } catch (problem) {
      // The errors and the numbers shown are those of the newest search.
      if (running !== mine) return;
      if (problem.name !== "AbortError") fill(errors, error(problem.message));
      else if (last) progress(last, "Stopped");
    } finally {
      if (running === mine) {
        draw();
        if (document.activeElement === stop) (more.hidden ? go : more).focus();
        stop.disabled = true;
        running = null;
      }
    }
  }

  const element = h("details", { open: isAsked }, h("summary", {}, "Search"), h("form", { onsubmit: (event) => {
    event.preventDefault();
    run(null);
  }, oninput: () => {
    // With other conditions it is another search, from the beginning.
    more.hidden = true;
  } }, h("p", { class: "dim" }, "A record must match all fields that are filled in. The partition is the one chosen above."),
  h("div", { class: "bar" }, field("Key contains", inputs.key), field("Value contains", inputs.value),
    field("as regular expressions", regex, { class: "check" }), field("Header", inputs.header),
    field("JSON path in the value", inputs.path), field("Comparison", inputs.operator), field("with", inputs.operand),
    field("Since (UTC)", inputs.since), go, stop, more)), bar, told, errors, place);
  return { element, asked };
}
