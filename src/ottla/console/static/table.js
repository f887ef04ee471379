// Tables that stay usable with thousands of rows: only rows in sight are drawn, all of one height.
//
// A column: title, cell(row) -> text or element, value(row) -> what it is sorted by, kind ("number"), width in ch (one
// without takes what is left, and 16 at least: where that is too much the table scrolls in its frame),
// narrow (its width on narrow screens), minor (left out there), header (its cells name the row), cut (its cells stay on
// one line). Where all rows are drawn, the other cells may have several lines.

import { h, renew } from "./dom.js";

const ALL_DRAWN = 120;
const SPARE = 12;

const wide = (column) => (column.width ? column.width + 2 : 16);
const narrow = (column) => (column.narrow || column.width || 9) + 1.5;

export function table({ label, columns, rows, key, empty, sorted, downward, drawnMax = ALL_DRAWN }) {
  let shown = [];
  let by = columns.find((column) => column.title === sorted) || null;
  let isDown = Boolean(downward);
  let drawn = null;
  let all = [];
  // Before there is an answer nothing is said to be empty.
  let isKnown = false;
  const body = h("tbody");
  const heads = columns.map((column) => h("th", { scope: "col", class: classes(column) }, column.value
    ? h("button", { type: "button", onclick: () => sortBy(column) }, column.title)
    : column.title));
  const grid = h("table", {}, h("caption", { class: "skip" }, label),
    h("colgroup", {}, columns.map((column) => {
      const made = h("col", { class: column.minor ? "minor" : "" });
      if (column.width) made.style.setProperty("--column", `${wide(column)}ch`);
      if (column.width) made.style.setProperty("--narrow-column", `${narrow(column)}ch`);
      return made;
    })),
    h("thead", {}, h("tr", {}, heads)), body);
  const least = (those, width) => `${those.reduce((sum, column) => sum + width(column), 0)}ch`;
  grid.style.setProperty("--wide", least(columns, wide));
  grid.style.setProperty("--narrow", least(columns.filter((column) => !column.minor), narrow));
  const frame = h("div", { class: "frame", tabIndex: 0, role: "region", "aria-label": label }, grid);
  frame.addEventListener("scroll", () => draw(false), { passive: true });
  new ResizeObserver(() => draw(false)).observe(frame);

  function classes(column) {
    return [column.kind, column.minor && "minor", column.cut && "cut"].filter(Boolean).join(" ");
  }

  function sortBy(column) {
    isDown = by === column ? !isDown : column.kind === "number";
    by = column;
    order();
    draw(true);
  }

  function order() {
    shown = [...all];
    if (by) {
      const sign = isDown ? -1 : 1;
      shown.sort((one, other) => {
        const left = by.value(one);
        const right = by.value(other);
        if (left === right) return 0;
        // What is not told comes last, whichever way.
        if (left === null || left === undefined) return 1;
        if (right === null || right === undefined) return -1;
        return left < right ? -sign : sign;
      });
    }
    columns.forEach((column, number) => {
      heads[number].setAttribute("aria-sort", column === by ? (isDown ? "descending" : "ascending") : "none");
      if (!column.value) heads[number].removeAttribute("aria-sort");
    });
  }

  function rowHeight() {
    return 2 * parseFloat(getComputedStyle(document.documentElement).fontSize);
  }

  function draw(anew) {
    const height = rowHeight();
    let first = 0;
    let end = shown.length;
    grid.classList.toggle("lined", shown.length <= drawnMax);
    if (shown.length > drawnMax) {
      first = Math.max(0, Math.floor(frame.scrollTop / height) - SPARE);
      end = Math.min(shown.length, Math.ceil((frame.scrollTop + frame.clientHeight) / height) + SPARE);
    }
    if (!anew && drawn && drawn[0] === first && drawn[1] === end) return;
    drawn = [first, end];
    const made = shown.slice(first, end).map((row, number) => line(row, first + number));
    if (first > 0) made.unshift(space(first * height));
    if (end < shown.length) made.push(space((shown.length - end) * height));
    if (!shown.length && isKnown) made.push(h("tr", {}, h("td", { colSpan: columns.length },
      (typeof empty === "function" ? empty() : empty) || "Nothing here.")));
    grid.setAttribute("aria-rowcount", shown.length + 1);
    renew(body, made);
  }

  function line(row, number) {
    return h("tr", { "aria-rowindex": String(number + 2), "data-key": String(key ? key(row) : number) },
      columns.map((column) => {
        const cell = column.cell(row);
        const properties = { class: classes(column), title: typeof cell === "string" ? cell : null };
        if (column.header) properties.scope = "row";
        return h(column.header ? "th" : "td", properties, cell);
      }));
  }

  function space(height) {
    const made = h("tr", { class: "space", "aria-hidden": "true" }, h("td", { colSpan: columns.length }));
    made.firstChild.style.height = `${height}px`;
    return made;
  }

  function update(given) {
    all = given;
    isKnown = true;
    order();
    draw(true);
  }

  if (rows) update(rows);
  else order();
  return { element: frame, update };
}
