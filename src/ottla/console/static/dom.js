// Elements made by calls. Text is only ever set as text: nothing that comes from Kafka is read as HTML.

export function h(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
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

export function error(sentence, again) {
  return h("div", { class: "error", role: "alert" }, sentence, again && [" ", h("button", { onclick: again },
    "Try again")]);
}

export function badge(text, kind) {
  return h("span", { class: `badge ${kind || ""}` }, text);
}
