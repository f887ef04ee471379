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

export function when(ms) {
  if (ms === null || ms === undefined || ms < 0) return "";
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  return date.toISOString().replace("T", " ").replace("Z", "");
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
