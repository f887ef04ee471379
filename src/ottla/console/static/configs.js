// A table of settings, of a topic or of a broker.

import { table } from "./table.js";

export function configs(found, label) {
  return table({
    label,
    rows: found,
    key: (row) => row.name,
    columns: [
      { title: "Setting", header: true, value: (row) => row.name, cell: (row) => row.name },
      { title: "Value", value: (row) => row.value, cell: (row) => row.value === null ? "not set" : row.value },
      { title: "Set by", width: 10, value: (row) => row.source, cell: (row) => row.source },
    ],
  }).element;
}
