// Elements made by calls. Text is only ever set as text: nothing that comes from Kafka is read as HTML.

export function h(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made[name] = value;
    else if (name === "class") made.className = value;
    else if (name in made && !name.startsWith("aria") && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(9).filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

// A sentence in which names stand between backticks, as the guide has them.
export function prose(sentence) {
  return sentence.split("`").map((piece, number) => number % 2 ? h("code", {}, piece) : piece);
}

export function fill(place, ...children) {
  place.replaceChildren(...children.flat(9).filter((each) => each !== null && each !== undefined && each !== false));
  return place;
}

const HANDLERS = ["onclick", "onsubmit", "oninput", "onchange"];

// The same as `fill`, for what is shown again and again: elements that are still the same stay, and with them the
// focus, a click that has begun, and text that is selected. A child with a `data-key` is known by it.
export function renew(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  renewChildren(place, h("div", {}, children));
  if (focused && focused !== document.activeElement && place.contains(focused)) focused.focus({ preventScroll: true });
  return place;
}

const keyOf = (node) => (node.dataset ? node.dataset.key : undefined);

function renewChildren(old, made) {
  const keyed = new Map([...old.childNodes].map((each) => [keyOf(each), each]));
  const wanted = new Set([...made.childNodes].map(keyOf));
  const isGone = (node) => keyOf(node) !== undefined && !wanted.has(keyOf(node));
  let at = old.firstChild;
  const drop = () => {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  };
  for (const next of [...made.childNodes]) {
    while (at && isGone(at)) drop();
    const key = keyOf(next);
    const same = key === undefined ? at : keyed.get(key);
    if (same && same.nodeName === next.nodeName && keyOf(same) === key) {
      if (key !== undefined) keyed.delete(key);
      if (same === at) at = at.nextSibling;
      else old.insertBefore(same, at);
      become(same, next);
    } else old.insertBefore(next, at);
  }
  while (at) drop();
}

function become(old, made) {
  if (old.nodeType === Node.TEXT_NODE) {
    retell(old, made.data);
    return;
  }
  for (const name of HANDLERS) old[name] = made[name];
  for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of made.attributes) {
    // The page's Content-Security-Policy has no room for styles as attributes.
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style.cssText !== made.style.cssText) old.style.cssText = made.style.cssText;
  renewChildren(old, made);
}

// Text that changed while it was selected: what it is now.
const late = new Map();

function isSelected(node) {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(node, true);
}

function retell(node, text) {
  late.delete(node);
  if (node.data === text) return;
  if (isSelected(node)) late.set(node, text);
  else node.data = text;
}

document.addEventListener("selectionchange", () => {
  // A copy: what is still selected is put back.
  for (const [node, text] of [...late]) retell(node, text);
});

// For `onsubmit`, and for `onclick` of one button: the buttons are disabled until the work is done, so that a double
// click does it once.
export function once(work) {
  return async (event) => {
    event.preventDefault();
    const at = event.currentTarget;
    const buttons = (at.matches("button") ? [at] : [...at.querySelectorAll("button")]).filter((each) => !each.disabled);
    if (!buttons.length) return;
    const focused = buttons.find((each) => each === document.activeElement);
    for (const each of buttons) each.disabled = true;
    try {
      await work();
    } finally {
      for (const each of buttons) each.disabled = false;
      if (focused && document.activeElement === document.body) focused.focus({ preventScroll: true });
    }
  };
}

// For `onclick` of a button that another one may replace after the click: the second click of a double click would hit
// that one, so it is ignored.
export const single = (work) => (event) => (event.detail > 1 ? undefined : work(event));

// Waits until the tab is shown, or its view is left.
export function shown(signal) {
  return new Promise((done) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, Object.entries(pairs).map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value === null || value === undefined ? "unknown" : value))));
}

export function field(label, control, extra) {
  return h("label", extra, label, control);
}

export function choice(options, chosen, properties) {
  return h("select", properties, options.map(([value, text]) =>
    h("option", { value, selected: value === chosen }, text)));
}

// Other options for a choice; what was chosen stays chosen where it is still offered.
export function offer(select, options) {
  const chosen = select.value;
  if (options.length === select.options.length) return;
  fill(select, options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
}

export function error(sentence, again) {
  return h("div", { class: "error", role: "alert" }, sentence, again && [" ", h("button", { onclick: again },
    "Try again")]);
}

export function badge(text, kind) {
  return h("span", { class: `badge ${kind || ""}` }, text);
}
