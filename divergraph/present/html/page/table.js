// The table: only the rows in sight are in the document.
const ROW = 30;
const grid = byId("grid");
const body = grid.querySelector("tbody");
const rank = state => SEVERITY.indexOf(state);

const numberColumn = (key, label, title) => ({
  key, label, title, numeric: true,
  has: () => Boolean(data.numbers[key]),
  sort: row => number(key, row),
  text: row => numberText(key, row),
});
const wordColumn = (key, label, title) => ({
  key, label, title,
  has: () => Boolean(tensors[key]),
  sort: row => word(key, row),
  text: row => word(key, row),
});
// So many metrics stand before what the op does to the error.
const TELLING = 3;
const columns = [
  {key: "state", label: "", title: "state", has: () => true, sort: row => rank(stateOf(row)), text: row => MARKS[stateOf(row)]},
  {key: "topo", label: "#", title: "place in execution order", numeric: true, has: () => true, sort: row => row, text: row => String(tensors.op[row])},
  {key: "op", label: "tensor", title: "device op and output", has: () => true, sort: row => nameOf(row) + portOf(row), text: row => nameOf(row)},
  {key: "type", label: "type", has: () => true, sort: typeOf, text: typeOf},
  wordColumn("dtype", "dtype", "on the device"),
  wordColumn("shape", "shape"),
  {key: "level", label: "level", has: () => true, sort: row => -tensors.level[row] || null, text: row => LEVELS[tensors.level[row]]},
  ...data.metrics.slice(0, TELLING).map(metric => numberColumn(...metric)),
  wordColumn("role", "role", "what the op does to the error"),
  numberColumn("suspicion", "suspicion", "introduced error over what precision explains"),
  numberColumn("introduced", "introduced", "error the op makes itself"),
  numberColumn("bad_share", "bad share", "share of elements that differ"),
  ...data.metrics.slice(TELLING).map(metric => numberColumn(...metric)),
].filter(column => column.has());
const NUMBERS_FROM = columns.findIndex(column => column.key === "level");

let order = [];
let place = new Map();

const compare = (a, b) => {
  // What is not known comes last, either way; NaN is larger than any number.
  if (typeof a === "number" && typeof b === "number") {
    if (Number.isNaN(a)) return Number.isNaN(b) ? 0 : 1;
    return Number.isNaN(b) ? -1 : a - b;
  }
  return a < b ? -1 : a > b ? 1 : 0;
};

const sortRows = rows => {
  const down = view.sort.startsWith("-");
  const column = columns.find(each => each.key === view.sort.replace(/^-/, "")) ?? columns[1];
  if (column.key === "topo") return down ? rows.reverse() : rows;
  const keys = new Map(rows.map(row => [row, column.sort(row)]));
  const missing = value => value === null || value === "";
  return rows.sort((a, b) => {
    const [first, second] = [keys.get(a), keys.get(b)];
    if (missing(first) || missing(second)) return missing(first) - missing(second) || a - b;
    return (down ? compare(second, first) : compare(first, second)) || a - b;
  });
};

const fillTable = shown => {
  const rows = [];
  for (let row = 0; row < rowCount; row++) if (shown[row]) rows.push(row);
  order = sortRows(rows);
  place = new Map(order.map((row, at) => [row, at]));
  grid.setAttribute("aria-rowcount", order.length + 1);
  byId("count").textContent = `${order.length.toLocaleString("en")} of ${rowCount.toLocaleString("en")}`;
  drawHead();
  drawRows();
};

const drawHead = () => {
  const key = view.sort.replace(/^-/, "");
  const cells = columns.map(column => {
    const sorted = column.key === key ? (view.sort.startsWith("-") ? "descending" : "ascending") : null;
    const button = element("button", {type: "button", "data-sort": column.key, title: column.title ?? column.label, "aria-label": column.label || column.title, tabindex: -1}, column.label);
    return element("th", {class: `${column.key}${column.numeric ? " num" : ""}`, "aria-sort": sorted, role: "columnheader"}, button);
  });
  grid.querySelector("thead").replaceChildren(element("tr", {role: "row"}, ...cells));
};

// The end of a name tells more than its beginning.
const narrow = matchMedia("(max-width: 900px)");
const shortened = text => {
  const room = narrow.matches ? 30 : 54;
  return text.length > room ? `…${text.slice(1 - room)}` : text;
};

const cell = (column, row) => {
  const text = column.key === "op" ? shortened(column.text(row)) : column.text(row);
  const made = element("td", {class: `${column.key}${column.numeric ? " num" : ""}`, role: "gridcell"}, text);
  if (column.key === "op") {
    made.append(element("span", {class: "port"}, portOf(row)));
    made.title = nameOf(row) + portOf(row);
  }
  if (column.key === "state") made.title = stateOf(row);
  return made;
};

const tableRow = (row, at) => {
  const attributes = {id: `row-${row}`, role: "row", "aria-rowindex": at + 2, "data-row": row, "data-state": stateOf(row), "data-level": LEVELS[tensors.level[row]] || null, "aria-selected": String(row) === view.select ? "true" : null};
  if (tensors.compared[row]) return element("tr", attributes, ...columns.map(column => cell(column, row)));
  const reason = [word("reason", row), word("detail", row)].filter(Boolean).join(": ") || "not compared";
  const why = element("td", {class: "reason", colspan: columns.length - NUMBERS_FROM, role: "gridcell", title: reason}, reason);
  return element("tr", attributes, ...columns.slice(0, NUMBERS_FROM).map(column => cell(column, row)), why);
};

const spacer = height => element("tr", {class: "spacer", "aria-hidden": "true"}, element("td", {colspan: columns.length, style: `height:${height}px`}));

const drawRows = () => {
  const first = Math.max(0, Math.min(Math.floor(grid.scrollTop / ROW) - 10, order.length - 1));
  const last = Math.min(order.length, first + Math.ceil(grid.clientHeight / ROW) + 20);
  const rows = order.slice(first, last).map((row, offset) => tableRow(row, first + offset));
  if (!order.length) rows.push(element("tr", {class: "empty"}, element("td", {colspan: columns.length}, "No tensor fits these filters.")));
  // A spacer of even height on both sides keeps the stripes in place.
  body.replaceChildren(spacer(first * ROW), ...rows, spacer((order.length - last) * ROW));
  const chosen = byId(`row-${view.select}`);
  if (chosen) grid.setAttribute("aria-activedescendant", chosen.id);
  else grid.removeAttribute("aria-activedescendant");
};

const scrollToRow = (row, middle) => {
  const at = place.get(row);
  if (at === undefined) return;
  const top = at * ROW, head = ROW + 4, height = grid.clientHeight - head;
  if (middle) grid.scrollTop = Math.max(0, top - height / 2);
  else if (top < grid.scrollTop) grid.scrollTop = top;
  else if (top + ROW > grid.scrollTop + height) grid.scrollTop = top + ROW - height;
};

// The panel that says all of one tensor.
const detail = byId("detail");
const DETAILS = [
  ...data.metrics, ["suspicion", "suspicion"], ["introduced", "introduced error"],
  ["propagated", "propagated error"], ["floor", "noise floor"], ["amplification", "amplification"],
  ["bad_share", "share of bad elements"], ["snr", "SNR in dB"], ["max_ulp", "largest ULP distance"],
  ["elements", "elements"], ["device_nonfinite", "NaN/Inf, device"], ["golden_nonfinite", "NaN/Inf, golden"],
];

const showDetail = row => {
  detail.hidden = row === null;
  if (row === null) return detail.replaceChildren();
  const lines = [];
  const add = (label, text, note) => {
    if (text) lines.push(element("dt", {}, label), element("dd", {}, text, note ? element("small", {}, note) : ""));
  };
  add("level", [LEVELS[tensors.level[row]], word("limit", row)].filter(Boolean).join(": "));
  add(tensors.compared[row] ? "note" : "not compared", [word("reason", row), word("detail", row)].filter(Boolean).join(": "));
  add("held against", goldenOf(row));
  add("dtype", [word("dtype", row), word("goldenType", row)].filter(Boolean).join(" against "));
  add("shape", word("shape", row));
  add("role", [word("role", row), word("guilt", row) === "none" ? "" : word("guilt", row)].filter(Boolean).join(", "));
  add("inherited from", words[ops.causes[tensors.op[row]]]);
  add("run as one", word("group", row));
  add("no reference", word("failure", row));
  const notes = data.notes[row] ?? {};
  for (const [key, label] of DETAILS) add(label, numberText(key, row), notes[key]);
  add("mean and std", word("deviation", row), notes.standard_deviation);
  add("bad elements", word("whereBad", row));
  const close = element("button", {type: "button", class: "close", "aria-label": "Close"}, "×");
  close.addEventListener("click", () => choose(null));
  const state = stateOf(row);
  detail.replaceChildren(
    close,
    element("h3", {}, element("span", {class: "mark", "data-state": state}, `${MARKS[state]} ${state}`), element("b", {}, nameOf(row) + portOf(row)), element("small", {}, typeOf(row))),
    element("dl", {}, ...lines),
  );
};
