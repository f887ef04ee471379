// Groups of both protocols, and one group with its lag by topic and partition.

import * as api from "./api.js";
import { h, fill, renew, facts } from "./dom.js";
import { count, plural } from "./format.js";
import { table } from "./table.js";

// What is not known is shown as Kafka's own tool shows it.
const orDash = (value) => (value === null ? "-" : count(value));
const lagOf = (row) => (row.lag !== null && row.lag_unknown ? `at least ${count(row.lag)}` : orDash(row.lag));
const unknown = (row) => (row.lag_unknown ? `, not known of ${plural(row.lag_unknown, "partition")}` : "");

export async function groups({ place, signal, every }) {
  const told = h("div");
  const list = table({
    label: "Groups",
    key: (row) => row.id,
    sorted: "Group",
    empty: "No group has committed offsets or has members.",
    columns: [
      { title: "Group", header: true, value: (row) => row.id, cell: (row) =>
        h("a", { href: `#/group/${api.part(row.id)}`, title: row.id }, row.id || "(empty name)") },
      { title: "State", width: 18, narrow: 12, value: (row) => row.state, cell: (row) => row.state },
      { title: "Protocol", width: 10, minor: true, value: (row) => row.protocol,
        cell: (row) => row.protocol || "unknown" },
      { title: "Coordinator", width: 11, kind: "number", minor: true, value: (row) => row.coordinator,
        cell: (row) => String(row.coordinator) },
      { title: "Lag", width: 13, narrow: 8, kind: "number", value: (row) => row.lag, cell: lagOf },
    ],
  });

  async function look() {
    const found = await api.get("groups", {}, signal);
    renew(told, h("p", { class: "dim" }, plural(found.groups.length, "group")),
      Object.values(found.untold).map((each) => h("p", { class: "warning" }, each)),
      found.lags_untold && h("p", { class: "warning" }, found.lags_untold));
    list.update(found.groups);
  }

  await look();
  fill(place, h("h1", {}, "Groups"), told, list.element);
  every(3, look);
}

export async function group({ place, places, signal, every }) {
  const [id] = places;
  const told = h("div");
  const lists = h("div");
  const tables = new Map();
  const members = table({
    label: `Members of ${id}`,
    key: (row) => row.id,
    empty: "No members now.",
    columns: [
      { title: "Member", header: true, value: (row) => row.id, cell: (row) => row.id },
      { title: "Client id", value: (row) => row.client_id, cell: (row) => row.client_id },
      { title: "Host", width: 16, minor: true, value: (row) => row.host, cell: (row) => row.host },
      { title: "Epoch", width: 6, kind: "number", minor: true, value: (row) => row.epoch,
        cell: (row) => count(row.epoch) },
      { title: "Partitions", width: 9, narrow: 8, kind: "number", value: (row) => row.partitions,
        cell: (row) => count(row.partitions) },
    ],
  });

  function partitionsOf(topic) {
    return table({
      label: `Lag of ${id} in ${topic}`,
      key: (row) => row.partition,
      columns: [
        { title: "Partition", width: 9, narrow: 7.5, kind: "number", header: true, value: (row) => row.partition,
          cell: (row) => String(row.partition) },
        { title: "Committed", width: 13, narrow: 9, kind: "number", value: (row) => row.committed,
          cell: (row) => row.committed === null ? "nothing" : count(row.committed) },
        { title: "Log end offset", width: 14, kind: "number", minor: true, value: (row) => row.end, cell: (row) => orDash(row.end) },
        { title: "Lag", width: 13, narrow: 9, kind: "number", value: (row) => row.lag, cell: (row) => orDash(row.lag) },
        { title: "Read by", minor: true, value: (row) => row.client_id, cell: (row) => row.client_id || "" },
      ],
    });
  }

  async function look() {
    const found = await api.get("group", { id }, signal);
    renew(told, facts({ State: found.state, Protocol: found.protocol, Assignor: found.assignor || null,
      "Group epoch": found.epoch === null ? "none in this protocol" : String(found.epoch),
      Coordinator: String(found.coordinator) }), found.offsets_untold && h("p", { class: "warning" }, found.offsets_untold));
    members.update(found.members);
    const names = found.topics.map((each) => each.topic);
    if (names.join("\n") !== [...tables.keys()].join("\n")) {
      tables.clear();
      for (const name of names) tables.set(name, { head: h("h2", {}), list: partitionsOf(name) });
      fill(lists, [...tables.values()].map(({ head, list }) => [head, list.element]));
    }
    for (const each of found.topics) {
      const { head, list } = tables.get(each.topic);
      renew(head, h("a", { href: `#/topic/${api.part(each.topic)}` }, each.topic),
        each.lag === null ? ": lag not known" : `: lag ${lagOf(each)}${unknown(each)}`);
      list.update(each.partitions);
    }
  }

  await look();
  fill(place, h("h1", {}, `Group ${id}`), told, h("h2", {}, "Members"), members.element, lists);
  every(3, look);
}
