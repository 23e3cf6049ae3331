"use strict";
// The numbers of the run, and what is asked of them everywhere.
const data = JSON.parse(document.getElementById("data").textContent);
const {ops, tensors, words} = data;
const rowCount = tensors.op.length;
const MARKS = {origin: "◆", inherited: "↓", drifting: "▲", explained: "≈", clean: "·", broken: "!", "not compared": "∅"};
const SEVERITY = ["origin", "broken", "inherited", "drifting", "explained", "clean", "not compared"];
const LEVELS = ["", "pass", "warn", "fail"];
const ODD = {NaN: NaN, Inf: Infinity, "-Inf": -Infinity};

for (const column of Object.values(data.numbers))
  for (let row = 0; row < rowCount; row++)
    if (column[row] in ODD) column[row] = ODD[column[row]];

const stateOf = row => data.states[ops.state[tensors.op[row]]];
const nameOf = row => words[ops.name[tensors.op[row]]];
const typeOf = row => words[ops.type[tensors.op[row]]];
const word = (column, row) => (tensors[column] ? words[tensors[column][row]] : "");
const number = (column, row) => {
  const value = data.numbers[column]?.[row];
  return typeof value === "number" ? value : null;  // a text says why there is none
};
const goldenOf = row => {
  const port = tensors.goldenPort?.[row] ?? 0;
  return word("golden", row) + (port ? `:${port - 1}` : "");
};
const portOf = row => {
  const port = tensors.port[row];
  return port < 0 ? "" : tensors.out[row] ? `:${port}` : `:input:${port}`;
};

const numberText = (key, row) => {
  const value = data.numbers[key]?.[row] ?? "";
  if (typeof value === "string") return value;
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Inf" : "-Inf";
  if (key === "cosine_similarity") return value.toFixed(6);
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e6) return value.toExponential(2).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(3)));
};

const element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  made.append(...children.filter(child => child !== null && child !== ""));
  return made;
};

const byId = id => document.getElementById(id);

// What is shown; kept in the address, so that a view can be passed on.
const DEFAULTS = {metric: "", limit: "", beyond: "", text: "", state: "", type: "", level: "", role: "", io: "", invalid: "", sort: "topo", select: ""};
const view = {...DEFAULTS};

const readAddress = () => {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(DEFAULTS)) view[key] = given.get(key) ?? DEFAULTS[key];
};

const writeAddress = () => {
  const kept = new URLSearchParams();
  for (const [key, value] of Object.entries(view)) if (value !== DEFAULTS[key]) kept.set(key, value);
  const text = kept.toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
};

const currentPlot = () => data.plots.find(plot => plot.key === view.metric) ?? data.plots[0];
// The run's limit, or the one that was put in its place; null for none.
const currentLimit = () => (view.limit === "" ? currentPlot()?.fail ?? null : Number(view.limit));
const isBeyond = (row, limit) => {
  const value = number(currentPlot().key, row);
  return value !== null && limit !== null && isWorse(value, limit, currentPlot().lower);
};

// Which tensors pass the filters.
const haystacks = new Array(rowCount);
const haystack = row =>
  (haystacks[row] ??= [nameOf(row) + portOf(row), typeOf(row), goldenOf(row), word("reason", row), word("dtype", row)]
    .join("\n").toLowerCase());

const passing = () => {
  const parts = view.text.toLowerCase().split(/\s+/).filter(Boolean);
  const states = view.state ? new Set(view.state.split(",")) : null;
  const level = view.level === "" ? null : Number(view.level);
  const passes = new Uint8Array(rowCount);
  for (let row = 0; row < rowCount; row++) {
    if (!view.invalid && !tensors.compared[row]) continue;
    if (states && !states.has(stateOf(row))) continue;
    if (level !== null && tensors.level[row] !== level) continue;
    if (view.io !== "" && String(tensors.out[row]) !== view.io) continue;
    if (view.type && typeOf(row) !== view.type) continue;
    if (view.role && word("role", row) !== view.role) continue;
    if (parts.length && !parts.every(part => haystack(row).includes(part))) continue;
    passes[row] = 1;
  }
  return passes;
};
