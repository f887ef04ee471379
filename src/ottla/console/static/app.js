// The page: which view the address names, and what is the same in all of them.

import * as api from "./api.js";
import { h, fill, error, shown } from "./dom.js";
import { brokers } from "./brokers.js";
import { topics } from "./topics.js";
import { topic } from "./topic.js";
import { groups, group } from "./groups.js";
import { transactions } from "./transactions.js";
import { served } from "./served.js";

const VIEWS = { brokers, topics, topic, groups, group, transactions, served };
const main = document.getElementById("main");
const state = document.getElementById("state");
let left = new AbortController();

// Tells the view that is shown that it is left. Returns the signal of the next view, which says when that one is left.
function leave() {
  left.abort();
  left = new AbortController();
  return left.signal;
}

export function say(sentence, kind) {
  fill(state, sentence && h("span", { class: kind || "done" }, sentence));
}

function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...places] = path.split("/").map(api.decoded);
  const isThere = Object.hasOwn(VIEWS, name) && (name !== "topic" || places[0]);
  return { name: isThere ? name : "topics", places, query: Object.fromEntries(new URLSearchParams(query || "")) };
}

function navigation(name) {
  const links = [["topics", "Topics"], ["brokers", "Brokers"], ["groups", "Groups"], ["transactions", "Transactions"]];
  if (api.current().is_served) links.push(["served", "Served cluster"]);
  const inside = { topic: "topics", group: "groups" }[name] || name;
  fill(document.getElementById("nav"), links.map(([each, title]) =>
    h("a", { href: `#/${each}`, "aria-current": each === inside ? "page" : null }, title)));
}

// A view: an async function that fills `place`, and works on until `signal` says that it was left.
async function show() {
  const signal = leave();
  const { name, places, query } = address();
  let here = location.href;
  navigation(name);
  say("");
  const place = fill(main, h("p", { class: "dim" }, "Loading"));
  const context = {
    place, places, query, signal, say, again: show,
    // Ask again for as long as the view is looked at, so many seconds after each answer. Where there is none the last
    // answer stays.
    every(seconds, ask) {
      let failed = "";
      const later = () => setTimeout(again, seconds * 1000);
      async function again() {
        // A hidden tab waits here, so it is refreshed at once when it is shown.
        await shown(signal);
        if (signal.aborted) return;
        try {
          await ask();
          // Only the error of this refresh is removed: another sentence may stand there by now.
          if (failed && state.textContent === failed && !signal.aborted) say("");
          failed = "";
        } catch (problem) {
          if (signal.aborted) return;
          failed = problem.message;
          say(failed, "error");
        }
        later();
      }
      later();
    },
    // What is to be found again after Back and a reload stands in the address.
    remember(parts, given) {
      // After Back, the address changes before the view is told that it is left.
      if (signal.aborted || location.href !== here) return;
      const kept = new URLSearchParams(Object.entries(given).filter(([, value]) => value)).toString();
      history.replaceState(null, "", `#/${parts.map(api.part).join("/")}${kept && `?${kept}`}`);
      here = location.href;
    },
  };
  try {
    await VIEWS[name](context);
  } catch (problem) {
    if (signal.aborted) return;
    if (problem.status === 401) askForToken();
    else fill(main, h("h1", {}, "It cannot be shown"), error(problem.message, show));
    if (!(problem instanceof api.Refused)) console.error(problem);
  }
  document.title = `${main.querySelector("h1") ? main.querySelector("h1").textContent : "ottla"} - ottla console`;
}

function askForToken(isWrong) {
  const given = h("input", { type: "password", name: "token", autocomplete: "off", required: true });
  fill(main, h("h1", {}, "Token"), h("p", {}, "This console wants the token that it was started with."),
    isWrong && error("This token is not the right one."),
    h("form", { class: "bar", onsubmit: (event) => {
      event.preventDefault();
      api.useToken(given.value.trim());
      start(true);
    } }, h("label", {}, "Token", given), h("button", {}, "Open")));
  given.focus();
}

async function start(isTokenGiven = false) {
  const signal = leave();
  fill(main, h("p", { class: "dim" }, "Loading"));
  try {
    const session = await api.begin(signal);
    fill(document.getElementById("where"), session.bootstrap_servers,
      session.read_only && [" ", h("span", { class: "badge" }, "read-only")]);
  } catch (problem) {
    if (signal.aborted) return;
    if (problem.status === 401) askForToken(isTokenGiven);
    else fill(main, h("h1", {}, "No answer"), error(problem.message, () => start()));
    return;
  }
  await show();
}

// The part of an address behind # is the view's.
document.querySelector("a.skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", async () => {
  const isTokenGiven = api.takeToken();
  const focused = document.activeElement;
  const all = isTokenGiven || !api.hasBegun() ? start(isTokenGiven) : show();
  // Scroll now, not when the view has loaded: the user may have scrolled or moved the focus by then.
  scrollTo(0, 0);
  await all;
  const hasMoved = ![focused, document.body].includes(document.activeElement);
  if (!hasMoved && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
});
start();
