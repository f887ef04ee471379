// A cluster that `ottla serve --control` runs: brokers to kill and start, every fault there is, requests, clients.

import * as api from "./api.js";
import { h, prose, fill, renew, field, choice, once, single, error, badge } from "./dom.js";
import { bytes, count, milliseconds } from "./format.js";
import { table } from "./table.js";
import { watch } from "./logs.js";

const VERBS = { running: ["kill", "power-off", "pause", "stop"], paused: ["resume", "kill", "power-off"],
  down: ["start"] };
// In the order in which a request goes through them.
const STAGES = ["RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ResponseQueueTimeMs", "ResponseSendTimeMs",
  "TotalTimeMs"];
const CLIENTS_S = 2;
const INTERVALS = [["1000", "every second"], ["5000", "every 5 seconds"], ["30000", "every 30 seconds"],
  ["0", "never"]];
const OF_TIMES = [["Mean", "mean"], ["99thPercentile", "99 %"], ["Max", "max"]];

export async function served({ place, signal, say, every }) {
  const found = await api.get("served", {}, signal);
  const isFixed = api.current().read_only;
  const errors = h("div");
  const brokers = h("div", { class: "cards" });
  const faults = h("div");
  const requests = h("div", {}, h("p", { class: "dim" }, "Loading"));
  const connections = connectionTable();
  const producers = producerTable();
  const clients = h("div");
  let measured = "";
  let list = null;

  async function act(sentence, call) {
    try {
      await call();
      say(sentence);
    } catch (problem) {
      say(problem.message, "error");
    }
  }

  function drawBrokers(all) {
    const focused = brokers.contains(document.activeElement) ? document.activeElement.closest("section") : null;
    renew(brokers, all.map((broker) => h("section", { class: "card", "data-key": String(broker.id) },
      h("h3", {}, `Broker ${broker.id} `, badge(broker.state, { running: "good", down: "bad" }[broker.state] || "storm")),
      h("p", { class: "dim" }, Object.values(broker.addresses).join(", ")),
      !isFixed && h("div", { class: "bar" }, (VERBS[broker.state] || []).map((verb) => h("button", {
        "data-key": verb, "aria-label": `${verb} broker ${broker.id}`,
        onclick: single(() => act(`Broker ${broker.id}: ${verb}.`,
          () => api.post(`served/brokers/${broker.id}/${verb}`))),
      }, verb))))));
    // A broker that was killed has other buttons now.
    if (focused && !brokers.contains(document.activeElement)) {
      const next = focused.querySelector("button");
      if (next) next.focus({ preventScroll: true });
    }
  }

  function drawFaults(all) {
    renew(faults, all.length ? h("ul", {}, all.map((fault) => h("li", { "data-key": String(fault.id) }, `${fault.id}: ${fault.what} `,
      badge(`fired ${count(fault.fired)}`, fault.fired ? "storm" : ""), ` of ${count(fault.matched)} that matched `,
      !isFixed && h("button", { class: "plain", "aria-label": `Heal fault ${fault.id}`, onclick: single(() =>
        act(`Fault ${fault.id} is healed.`, () => api.remove(`served/faults/${fault.id}`))) }, "Heal"))))
      : h("p", { class: "dim" }, "No fault is in force."));
  }

  function drawRequests(all) {
    const stages = STAGES.filter((stage) => all.some((each) => each.stages[stage]));
    if (!list || measured !== stages.join()) {
      measured = stages.join();
      list = requestTable(stages);
      fill(requests, list.element);
    }
    list.update(all);
  }

  let pushed = "";
  const ask = api.inOrder(() => api.get("served/clients", {}, signal));

  async function askClients() {
    try {
      const found = await ask();
      if (!found) return;
      const all = found.clients;
      const now = JSON.stringify(all);
      if (now === pushed) return;
      pushed = now;
      drawClients(clients, all);
    } catch (problem) {
      pushed = "";
      if (!signal.aborted) fill(clients, error(problem.message));
    }
  }

  const live = h("div", {}, h("h2", {}, "Brokers"), brokers,
    h("h2", {}, "Faults in force"), faults, !isFixed && faultForm(found.kinds, act),
    h("h2", {}, "Requests"), requests, h("p", { class: "dim" },
      "Times in milliseconds, under Kafka's names: those that the brokers measure."),
    h("h2", {}, "Connections"), h("p", { class: "dim" }, "What each broker sees: the request that it is at, how many ",
      "it has read and not answered, and bytes that wait in the socket until it reads on."), connections.element,
    h("h2", {}, "Producers"), h("p", { class: "dim" }, "What the leaders remember: the last sequence number in each partition, and the last batches, by which they recognise ",
      "one that is sent again (first to last sequence number, at base offset). Refreshed once a second at most."), producers.element,
    h("h2", {}, "Clients"), !isFixed && subscription(act), clients);
  fill(place, h("h1", {}, "Served cluster"), errors, live);
  drawBrokers(found.brokers);
  drawFaults(found.faults);
  askClients();
  every(CLIENTS_S, askClients);
  watch({}, signal, (changed) => {
    if (changed.brokers) drawBrokers(changed.brokers);
    if (changed.faults) drawFaults(changed.faults);
    if (changed.connections) connections.update(changed.connections);
    if (changed.producers) producers.update(changed.producers);
    if (changed.requests) drawRequests(changed.requests);
    // A stream that was opened again begins with all of it.
    const isWhole = changed.brokers && changed.faults && changed.connections;
    if ("error" in changed || isWhole) tell(changed.error);
  });

  // What is old can be read and does nothing.
  function tell(problem) {
    live.inert = Boolean(problem);
    fill(errors, problem && [h("p", { class: "error" }, problem), h("p", {}, "What is shown below is old.")]);
  }
}

function faultForm(kinds, act) {
  const kind = choice(kinds.map((each) => [each.kind, each.kind]), kinds[0].kind, { onchange: draw });
  const says = h("p", { class: "dim", id: "fault-says" });
  const fields = h("div", { class: "fields" });
  kind.setAttribute("aria-describedby", "fault-says");

  function draw() {
    const chosen = kinds.find((each) => each.kind === kind.value);
    fill(says, prose(chosen.what));
    fill(fields, chosen.fields.map((each) => h("div", {}, field(`${each.name}${each.wanted ? " (needed)" : ""}`,
      h("input", { name: each.name, required: each.wanted, autocomplete: "off", "aria-describedby": `says-${each.name}` })),
    h("small", { class: "dim", id: `says-${each.name}` }, prose(`${each.what}: ${each.must_be}`)))));
  }

  draw();
  return h("form", { class: "card", onsubmit: once(async () => {
    const given = { kind: kind.value };
    for (const input of fields.querySelectorAll("input")) if (input.value.trim()) given[input.name] = input.value.trim();
    await act(`${kind.value} is in force.`, () => api.post("served/faults", given));
  }) }, h("h3", {}, "Add a fault"), field("Fault", kind), says, fields, h("button", { class: "danger" },
    "Add the fault"));
}

function requestTable(stages) {
  return table({
    label: "Requests",
    key: (row) => row.request,
    empty: "No request yet.",
    columns: [
      { title: "Request", width: 24, narrow: 10, header: true, value: (row) => row.request, cell: (row) => row.request },
      { title: "Count", width: 11, narrow: 7, kind: "number", value: (row) => row.count, cell: (row) => count(row.count) },
      ...stages.flatMap((stage) => OF_TIMES.map(([name, title]) => ({
        title: `${stage} ${title}`, width: stage.length + 1, narrow: 11, kind: "number",
        minor: stage !== "TotalTimeMs" || name !== "Mean",
        value: (row) => row.stages[stage] && row.stages[stage][name],
        cell: (row) => row.stages[stage] ? milliseconds(row.stages[stage][name]) : "",
      }))),
    ],
  });
}

function connectionTable() {
  return table({
    label: "Connections",
    key: (row) => `${row.broker} ${row.address}`,
    empty: "No client is connected.",
    columns: [
      { title: "Client", header: true, value: (row) => row.client_id, cell: (row) => row.client_id || "unknown" },
      { title: "Broker", width: 6, narrow: 5, kind: "number", value: (row) => row.broker, cell: (row) => String(row.broker) },
      { title: "In flight", width: 8, narrow: 5, kind: "number", value: (row) => row.requests_in_flight,
        cell: (row) => count(row.requests_in_flight) },
      { title: "Unread", width: 9, narrow: 7, kind: "number", value: (row) => row.unread_bytes, cell: (row) => bytes(row.unread_bytes) },
      { title: "Request", width: 14, minor: true, value: (row) => row.request, cell: (row) => row.request || "" },
      { title: "Producer id", width: 11, kind: "number", minor: true, value: (row) => row.producer_id,
        cell: (row) => row.producer_id === null ? "" : String(row.producer_id) },
      { title: "Library", width: 18, minor: true, value: (row) => row.software_name,
        cell: (row) => `${row.software_name} ${row.software_version}`.trim() },
      { title: "Listener", width: 10, minor: true, value: (row) => row.listener, cell: (row) => row.listener },
      { title: "Address", width: 17, minor: true, value: (row) => row.address, cell: (row) => row.address },
    ],
  });
}

function producerTable() {
  return table({
    label: "Producers",
    key: (row) => `${row.producer_id} ${row.topic}-${row.partition}`,
    empty: "No producer numbers its batches.",
    columns: [
      { title: "Client", header: true, value: (row) => row.client_id, cell: (row) => row.client_id || "not connected" },
      { title: "Partition", width: 18, narrow: 11, value: (row) => `${row.topic}-${row.partition}`,
        cell: (row) => h("a", { href: `#/topic/${api.part(row.topic)}/logs` }, `${row.topic}-${row.partition}`) },
      { title: "Last sequence", width: 12, narrow: 9, kind: "number", value: (row) => row.last_sequence,
        cell: (row) => String(row.last_sequence) },
      { title: "Producer id", width: 11, kind: "number", minor: true, value: (row) => row.producer_id,
        cell: (row) => String(row.producer_id) },
      { title: "Epoch", width: 6, kind: "number", minor: true, value: (row) => row.epoch,
        cell: (row) => String(row.epoch) },
      { title: "Last batches", width: 50, minor: true, cell: (row) => row.batches.map(([first, last, base]) =>
        `${first === last ? first : `${first} to ${last}`} at ${base}`).join(", ") },
    ],
  });
}

function subscription(act) {
  const interval = choice(INTERVALS, "5000");
  return h("form", { class: "bar", onsubmit: once(async () => {
    const wanted = Number(interval.value);
    await act(wanted ? "Clients that connect from now on push their metrics." : "Clients are not asked for metrics here.",
      () => api.post("served/subscription", { interval_ms: wanted }));
  }) }, field("Clients push their metrics (KIP-714)", interval), h("button", {}, "Apply"));
}

// Each client in a place of its own: what is open stays open, and a table keeps how it is sorted.
function drawClients(place, all) {
  if (!all.length) {
    fill(place, h("p", { class: "dim" }, "No client has pushed metrics. Choose an interval, then start the clients again: they learn of it when they connect."));
    return;
  }
  const before = new Map([...place.children].filter((each) => each.draw).map((each) => [each.dataset.client, each]));
  const drawn = all.map((client) => {
    const id = `${client.client_instance_id} ${client.broker}`;
    const made = before.get(id) || clientCard(id);
    made.draw(client);
    return made;
  });
  for (const each of [...place.children]) if (!drawn.includes(each)) each.remove();
  drawn.forEach((each, number) => {
    if (place.children[number] !== each) place.insertBefore(each, place.children[number] || null);
  });
}

function clientCard(id) {
  const name = h("h3");
  const limits = h("div");
  const metrics = table({ label: "Metrics that it pushed", key: (row) => `${row.name} ${JSON.stringify(row.attributes)}`, columns: [
    { title: "Metric", header: true, value: (row) => row.name, cell: (row) =>
      [row.name, ...Object.values(row.attributes || {})].join(" ") },
    { title: "Value", width: 16, kind: "number", value: (row) => row.value,
      cell: (row) => row.value === null ? "no value" : String(row.value) },
  ] });
  const made = h("section", { class: "card", "data-client": id }, name, limits,
    h("details", {}, h("summary", {}, "Metrics"), metrics.element));
  made.draw = (client) => {
    renew(name, `${client.client_id || client.client_instance_id} `, client.is_terminated && badge("has ended"));
    renew(limits, shownDiagnosis(client), h("p", { class: "dim" },
      `${client.software_name} ${client.software_version}, `,
      `${count(client.pushes)} ${client.pushes === 1 ? "push" : "pushes"} to broker ${client.broker}`,
      inFlight(client)));
    metrics.update(client.metrics);
  };
  return made;
}

function inFlight(client) {
  const found = client.metrics.find((each) => each.name === "org.apache.kafka.producer.requests.in.flight");
  return found ? `; ${count(found.value)} requests in flight by its own count` : "";
}

function shownDiagnosis({ diagnosis }) {
  if (!diagnosis) return h("p", { class: "dim" }, "What limits it is unknown: it has pushed no metrics of a producer.");
  const sentences = diagnosis.findings.length ? diagnosis.findings : [diagnosis];
  const assumed = Object.entries(diagnosis.assumed).map(([name, value]) => `${name}=${value}`).join(", ");
  return [h("ul", {}, sentences.map((each) => h("li", {}, each.limit && [h("b", {}, each.limit), ": "], each.sentence))),
    h("p", { class: "dim" }, `From what it pushed about ${diagnosis.seconds.toFixed(1)} s. It does not push its settings: ${
      assumed} and Kafka's other defaults are assumed. Whether it waits for each record is not pushed, either.`)];
}
