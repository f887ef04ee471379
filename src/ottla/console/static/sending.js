// Records sent from the page: one that is typed, or a file with one JSON object a line, as an export has it.

import * as api from "./api.js";
import { h, fill, field, once, error } from "./dom.js";
import { plural } from "./format.js";

export function sending(name, partition, look, signal) {
  const path = `topics/${api.part(name)}`;
  const key = h("input", { autocomplete: "off" });
  const value = h("textarea", { rows: 4 });
  const noKey = h("input", { type: "checkbox", checked: true });
  const noValue = h("input", { type: "checkbox" });
  const headers = h("input", { placeholder: "name=text; name2=text2", autocomplete: "off" });
  const file = h("input", { type: "file", accept: ".ndjson,.jsonl,.json,.txt" });
  const told = h("div", { role: "status" });
  key.addEventListener("input", () => {
    noKey.checked = !key.value;
  });

  async function send() {
    const record = { key: noKey.checked ? null : key.value, value: noValue.checked ? null : value.value,
      headers: headers.value.split(";").filter((each) => each.trim()).map((each) => {
        const [title, ...rest] = each.trim().split("=");
        return [title, rest.join("=")];
      }) };
    if (partition.value) record.partition = Number(partition.value);
    fill(told, "Sending");
    try {
      const stored = await api.post(`${path}/records`, { record });
      fill(told, h("p", { class: "done" }, `Stored in partition ${stored.partition} at offset ${stored.offset}.`));
      await look();
    } catch (problem) {
      fill(told, error(problem.message));
    }
  }

  async function take() {
    if (!file.files.length) return;
    fill(told, "Sending. The import ends when this view is left.");
    try {
      const done = await api.post(`${path}/import`, file.files[0], "application/x-ndjson", signal);
      fill(told, h("p", { class: done.error ? "warning" : "done" }, `${plural(done.stored, "record")} stored`,
        done.left_out ? `, ${done.left_out} left out: their transaction was aborted, or is open` : "",
        done.failed ? `, ${done.failed} not stored` : "", done.unknown ? `, ${done.unknown} not known to be stored` : "",
        done.error ? `; then it ended: ${done.error}` : "."));
      await look();
    } catch (problem) {
      if (signal.aborted) return;
      fill(told, error(problem.message));
    }
  }

  return h("details", {}, h("summary", {}, "Send"), h("form", { onsubmit: once(send) },
    h("div", { class: "bar" }, field("Key", key, { class: "grow" }), field("no key (null)", noKey, { class: "check" }),
      field("Partition", partition), field("Headers", headers, { class: "grow" })),
    field("Value", value), h("div", { class: "bar" }, field("no value (a tombstone)", noValue, { class: "check" }),
      h("button", {}, "Send the record"))),
  h("form", { class: "bar", onsubmit: once(take) }, field("A file with one JSON object a line, as Export writes it", file,
    { class: "grow" }), h("button", {}, "Import")), told);
}
