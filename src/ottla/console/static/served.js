// A cluster that `ottla serve --control` runs: brokers to kill and start, every fault there is, requests, clients.

import * as api from "./api.js";
import { h, fill, field, choice, error, badge } from "./dom.js";
import { count, milliseconds } from "./format.js";
import { table } from "./table.js";
import { watch } from "./logs.js";

const VERBS = { running: ["kill", "power-off", "pause", "stop"], paused: ["resume", "kill", "power-off"],
  down: ["start"] };
// In the order in which a request goes through them.
const STAGES = ["RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ResponseQueueTimeMs", "ResponseSendTimeMs",
  "TotalTimeMs"];
const OF_TIMES = [["Mean", "mean"], ["99thPercentile", "99 %"], ["Max", "max"]];

export async function served({ place, signal, say }) {
  const found = await api.get("served", {}, signal);
  const isFixed = api.current().read_only;
  const trouble = h("div");
  const brokers = h("div", { class: "cards" });
  const faults = h("div");
  const requests = h("div", {}, h("p", { class: "dim" }, "Loading"));
  const clients = h("div");
  let before = "";
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
    const now = JSON.stringify(all);
    if (now === before) return;
    before = now;
    const focused = brokers.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    fill(brokers, all.map((broker) => h("section", { class: "card" },
      h("h3", {}, `Broker ${broker.id} `, badge(broker.state, { running: "good", down: "bad" }[broker.state] || "storm")),
      h("p", { class: "dim" }, Object.values(broker.addresses).join(", ")),
      !isFixed && h("div", { class: "bar" }, (VERBS[broker.state] || []).map((verb) => h("button", {
        "aria-label": `${verb} broker ${broker.id}`,
        onclick: () => act(`Broker ${broker.id}: ${verb}.`, () => api.post(`served/brokers/${broker.id}/${verb}`)),
      }, verb))))));
    if (focused) {
      const again = [...brokers.querySelectorAll("button")].find((each) => each.getAttribute("aria-label") === focused)
        || brokers.querySelector("button");
      if (again) again.focus({ preventScroll: true });
    }
  }

  function drawFaults(all) {
    fill(faults, all.length ? h("ul", {}, all.map((fault) => h("li", {}, `${fault.id}: ${fault.what} `,
      badge(`fired ${count(fault.fired)}`, fault.fired ? "storm" : ""), ` of ${count(fault.matched)} that matched `,
      !isFixed && h("button", { class: "plain", "aria-label": `Heal fault ${fault.id}`, onclick: () =>
        act(`Fault ${fault.id} is healed.`, () => api.remove(`served/faults/${fault.id}`)) }, "Heal"))))
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

  async function askClients() {
    try {
      fill(clients, shownClients((await api.get("served/clients", {}, signal)).clients));
    } catch (problem) {
      if (!signal.aborted) fill(clients, error(problem.message));
    }
  }

  fill(place, h("h1", {}, "Served cluster"), trouble, h("h2", {}, "Brokers"), brokers,
    h("h2", {}, "Faults in force"), faults, !isFixed && faultForm(found.kinds, act),
    h("h2", {}, "Requests"), requests, h("p", { class: "dim" },
      "Times in milliseconds, under Kafka's names: those that the brokers measure."),
    h("h2", {}, "Metrics that clients have pushed"), clients);
  drawBrokers(found.brokers);
  drawFaults(found.faults);
  askClients();
  watch({}, signal, (changed) => {
    if (changed.brokers) drawBrokers(changed.brokers);
    if (changed.faults) drawFaults(changed.faults);
    if (changed.requests) drawRequests(changed.requests);
    if ("error" in changed) fill(trouble, changed.error && h("p", { class: "error" }, changed.error));
  });
}

function faultForm(kinds, act) {
  const kind = choice(kinds.map((each) => [each.kind, each.kind]), kinds[0].kind, { onchange: draw });
  const says = h("p", { class: "dim", id: "fault-says" });
  const fields = h("div", { class: "fields" });
  kind.setAttribute("aria-describedby", "fault-says");

  function draw() {
    const chosen = kinds.find((each) => each.kind === kind.value);
    fill(says, chosen.what);
    fill(fields, chosen.fields.map((each) => h("div", {}, field(`${each.name}${each.wanted ? " (needed)" : ""}`,
      h("input", { name: each.name, required: each.wanted, autocomplete: "off", "aria-describedby": `says-${each.name}` })),
    h("small", { class: "dim", id: `says-${each.name}` }, `${each.what}: ${each.must_be}`))));
  }

  draw();
  return h("form", { class: "card", onsubmit: (event) => {
    event.preventDefault();
    const given = { kind: kind.value };
    for (const input of fields.querySelectorAll("input")) if (input.value.trim()) given[input.name] = input.value.trim();
    act(`${kind.value} is in force.`, () => api.post("served/faults", given));
  } }, h("h3", {}, "Let something go wrong"), field("Fault", kind), says, fields, h("button", { class: "danger" },
    "Put it in force"));
}

function requestTable(stages) {
  return table({
    label: "Requests",
    key: (row) => row.request,
    empty: "No request yet.",
    columns: [
      { title: "Request", header: true, value: (row) => row.request, cell: (row) => row.request },
      { title: "Count", width: 11, kind: "number", value: (row) => row.count, cell: (row) => count(row.count) },
      ...stages.flatMap((stage) => OF_TIMES.map(([name, title]) => ({
        title: `${stage} ${title}`, width: stage.length + title.length + 2, kind: "number",
        minor: stage !== "TotalTimeMs" || name !== "Mean",
        value: (row) => row.stages[stage] && row.stages[stage][name],
        cell: (row) => row.stages[stage] ? milliseconds(row.stages[stage][name]) : "",
      }))),
    ],
  });
}

function shownClients(all) {
  if (!all.length) {
    return h("p", { class: "dim" }, "None: clients push where a CLIENT_METRICS subscription asks for it (KIP-714).");
  }
  return all.map((client) => h("details", {}, h("summary", {}, `${client.client_id || client.client_instance_id} `,
    `(${client.software_name} ${client.software_version}), ${count(client.pushes)} pushes to broker ${client.broker}`),
  table({ label: `Metrics of ${client.client_id}`, rows: client.metrics, key: (row) => row.name, columns: [
    { title: "Metric", header: true, value: (row) => row.name, cell: (row) => row.name },
    { title: "Value", width: 16, kind: "number", value: (row) => row.value, cell: (row) => String(row.value) },
  ] }).element));
}
