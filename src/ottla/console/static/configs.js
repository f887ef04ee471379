// A table of settings, of a topic or of a broker.

import { h } from "./dom.js";
import { table } from "./table.js";

export function configs(found, label) {
  return table({
    label,
    rows: found,
    // A broker of Apache Kafka's has about 300, and long names and values must be readable in full.
    drawnMax: 1000,
    key: (row) => row.name,
    columns: [
      { title: "Setting", header: true, value: (row) => row.name, cell: (row) => byDots(row.name) },
      { title: "Value", value: (row) => row.value, cell: (row) => row.value === null ? "not set" : row.value },
      { title: "Set by", width: 10, narrow: 7, value: (row) => row.source, cell: (row) => row.source },
    ],
  }).element;
}

// A long name goes on in the next line behind one of its dots.
const byDots = (name) => h("span", {}, name.split(/(?<=\.)/).map((piece) => [piece, h("wbr")]));
