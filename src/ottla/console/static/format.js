// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat("en");
const DEPTH_MAX = 50;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const count = (value) => (value === null || value === undefined ? "" : whole.format(value));

export function bytes(value) {
  if (value === null || value === undefined) return "";
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

// A timestamp, as a number or as its digits. Kafka's -1 is none.
export function when(ms) {
  if (ms === null || ms === undefined) return "";
  if (Number(ms) === -1) return "no timestamp";
  const date = new Date(Number(ms));
  if (Number.isNaN(date.getTime())) return `${ms} ms`;
  return date.toISOString().replace(/^\+0*/, "").replace("T", " ").replace("Z", "");
}

// What an input has as a time in UTC, in milliseconds; undefined where it is empty. Throws a sentence where it is no
// time.
export function timeOf(input, label) {
  if (!input.value && !input.validity.badInput) return undefined;
  const ms = Date.parse(`${input.value}Z`);
  if (!(ms >= 0)) throw new Error(`${label} must be a date and a time from 1970 to 9999, such as 2026-01-31 13:30:00.`);
  return ms;
}

const QUOTED_MAX = 200;

// A name inside a sentence: in quotation marks, with what cannot be seen or turns text around spelled out.
export function quoted(name) {
  const text = name.length > QUOTED_MAX ? `${name.slice(0, QUOTED_MAX)}...` : name;
  return JSON.stringify(text).replace(/(?! )[\p{C}\p{Z}]/gu, (each) => {
    const digits = each.codePointAt(0).toString(16).padStart(4, "0");
    return digits.length > 4 ? `\\u{${digits}}` : `\\u${digits}`;
  });
}

export function age(ms) {
  if (ms === null || ms === undefined) return "";
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} days`;
}

export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export function milliseconds(value) {
  return value === undefined ? "" : value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0);
}

// JSON on several lines, each number and text as it was written; what is nested very deeply stays as it is.
export function indented(json) {
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) || [];
  const begins = (token) => token === "{" || token === "[";
  const ends = (token) => token === "}" || token === "]";
  const lines = [];
  let depth = 0;
  let line = "";
  const next = () => {
    lines.push(line);
    line = "  ".repeat(depth);
  };
  for (const [number, token] of tokens.entries()) {
    if (begins(token) && !ends(tokens[number + 1])) {
      line += token;
      if ((depth += 1) > DEPTH_MAX) return json;
      next();
    } else if (ends(token) && !begins(tokens[number - 1])) {
      depth -= 1;
      next();
      line += token;
    } else if (token === ",") {
      line += token;
      next();
    } else line += token === ":" ? ": " : token;
  }
  return [...lines, line].join("\n");
}
