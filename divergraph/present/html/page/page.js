// What belongs together: filters, table, plot and the address.
const choose = (row, {show = false} = {}) => {
  view.select = row === null ? "" : String(row);
  if (row !== null && show && !place.has(row)) {
    // The row is filtered out: the filters give way, not the user's choice.
    Object.assign(view, {text: "", state: "", level: "", role: "", io: "", type: "", beyond: "", invalid: tensors.compared[row] ? view.invalid : "1"});
    fillControls();
    refresh();
  }
  showDetail(row);
  if (row !== null) scrollToRow(row, show);
  drawRows();
  drawHover();
  writeAddress();
};

// Which rows all filters take but the limit.
let passesFilters = new Uint8Array(rowCount);
const refresh = () => {
  passesFilters = passing();
  grid.scrollTop = 0;
  const limit = currentLimit();
  // Beyond the limit are ops: the output that stands for each.
  fillTable(view.beyond ? passesFilters.map((passes, row) => passes && ops.row[tensors.op[row]] === row && isBeyond(row, limit)) : passesFilters);
  drawPlot();
  writeAddress();
};

const fillControls = () => {
  const metric = byId("metric");
  if (!metric.options.length) {
    for (const plot of data.plots) metric.append(element("option", {value: plot.key}, plot.label));
    for (const role of [...new Set((tensors.role ?? []).filter(Boolean))]) byId("role").append(element("option", {value: words[role]}, words[role]));
    const types = new Map();
    for (const type of ops.type) types.set(words[type], (types.get(words[type]) ?? 0) + 1);
    for (const [type, count] of [...types].sort((a, b) => b[1] - a[1])) byId("type").append(element("option", {value: type}, `${type} (${count})`));
    byId("role-label").hidden = !tensors.role;
  }
  if (!data.plots.some(plot => plot.key === view.metric)) view.metric = DEFAULTS.metric = data.plots.some(plot => plot.key === "relative_euclidean_distance") ? "relative_euclidean_distance" : data.plots[0]?.key ?? "";
  metric.value = view.metric;
  for (const name of ["text", "type", "level", "role", "io"]) byId(name).value = view[name];
  byId("invalid").checked = view.invalid === "1";
  const states = new Set(view.state.split(",").filter(Boolean));
  byId("chips").replaceChildren(...SEVERITY.filter(state => stateCounts.get(state) && state !== "not compared").map(state =>
    element("button", {type: "button", class: "chip", "data-state": state, "aria-pressed": String(states.has(state))},
      element("span", {class: "mark", "data-state": state}, MARKS[state]), ` ${state} `, element("small", {}, stateCounts.get(state).toLocaleString("en")))));
};

const stateCounts = new Map();
for (const state of ops.state) stateCounts.set(data.states[state], (stateCounts.get(data.states[state]) ?? 0) + 1);

for (const [name, kind] of [["text", "input"], ["type", "change"], ["level", "change"], ["role", "change"], ["io", "change"]])
  byId(name).addEventListener(kind, event => {
    view[name] = event.target.value;
    refresh();
  });
byId("invalid").addEventListener("change", event => {
  view.invalid = event.target.checked ? "1" : "";
  refresh();
});
byId("metric").addEventListener("change", event => {
  Object.assign(view, {metric: event.target.value, limit: ""});
  hovered = -1;
  refresh();
});
byId("limit").addEventListener("input", event => moveLimit(event.target.value));
byId("limit").addEventListener("blur", countBeyond);
byId("beyond").addEventListener("change", event => {
  view.beyond = event.target.checked ? "1" : "";
  refresh();
});
byId("unzoom").addEventListener("click", () => zoomTo(0, lastOp));
byId("clear").addEventListener("click", () => {
  Object.assign(view, {text: "", state: "", type: "", level: "", role: "", io: "", invalid: "", beyond: ""});
  fillControls();
  refresh();
});
byId("chips").addEventListener("click", event => {
  const chip = event.target.closest(".chip");
  if (!chip) return;
  const states = new Set(view.state.split(",").filter(Boolean));
  if (!states.delete(chip.dataset.state)) states.add(chip.dataset.state);
  view.state = [...states].join(",");
  fillControls();
  byId("chips").querySelector(`[data-state="${chip.dataset.state}"]`)?.focus();
  refresh();
});

grid.addEventListener("click", event => {
  const sort = event.target.closest("[data-sort]")?.dataset.sort;
  if (sort) {
    // Numbers begin with the largest, the cosine with the smallest: the worst first.
    const column = columns.find(each => each.key === sort);
    const first = column.numeric && !["topo", "cosine_similarity"].includes(sort) ? `-${sort}` : sort;
    const second = first.startsWith("-") ? sort : `-${sort}`;
    view.sort = view.sort === first ? second : first;
    refresh();
    return;
  }
  const row = event.target.closest("[data-row]")?.dataset.row;
  if (row !== undefined) choose(Number(row));
});
grid.addEventListener("keydown", event => {
  const at = place.get(Number(view.select || NaN)) ?? -1;
  const page = Math.max(1, Math.floor(grid.clientHeight / ROW) - 2);
  const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity};
  if (event.key === "Escape") return choose(null);
  if (!(event.key in steps) || !order.length) return;
  event.preventDefault();
  choose(order[Math.max(0, Math.min(order.length - 1, at + steps[event.key]))]);
});
let waiting = false;
grid.addEventListener("scroll", () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawRows();
  });
});

const rowsOfOp = new Map();
for (let row = rowCount - 1; row >= 0; row--) {
  const name = nameOf(row), kept = rowsOfOp.get(name);
  // An op's first output stands for it.
  if (kept === undefined || tensors.out[row] || !tensors.out[kept]) rowsOfOp.set(name, row);
}
for (const link of document.querySelectorAll("a.op")) {
  const row = rowsOfOp.get(link.dataset.op);
  if (row === undefined) continue;
  link.href = "#tensors";
  link.addEventListener("click", event => {
    event.preventDefault();
    choose(row, {show: true});
    byId("tensors").scrollIntoView({behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth"});
    grid.focus({preventScroll: true});
  });
}
document.addEventListener("keydown", event => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  event.preventDefault();
  byId("text").focus();
});

const start = () => {
  readAddress();
  fillControls();
  refresh();
  const chosen = Number(view.select || NaN);
  if (chosen >= 0 && chosen < rowCount) choose(chosen, {show: true});
};
document.querySelectorAll(".js").forEach(each => { each.hidden = false; });
byId("along").hidden = !data.plots.length;
addEventListener("hashchange", start);
new ResizeObserver(drawRows).observe(grid);
start();
