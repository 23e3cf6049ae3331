// The plot: on the axes of the run's picture the ops that pass the filters.
const plotBox = byId("plot");
const tip = plotBox.querySelector(".tip");
const RANKS_SHOWN = 100;
const lastOp = Math.max(1, ops.name.length - 1);
let zoom = [0, lastOp];
let svg = null;
let points = []; // {op, row, x, y, circle}, from left to right
let hovered = -1;
let brush = null; // where a drag began

const isShown = row => passesFilters[row] && (!view.beyond || isBeyond(row, currentLimit()));

const drawPlot = () => {
  const plot = currentPlot();
  if (!plot) return;
  plotBox.querySelector("svg")?.remove();
  plotBox.insertAdjacentHTML("afterbegin", plot.axes);
  svg = plotBox.querySelector("svg");
  dragLimit(svg, limit => moveLimit(String(limit)));
  drawPoints(plot);
  showLimit(svg, currentLimit());
  plotBox.dataset.points = points.length;
  plotBox.dataset.metric = plot.key;
  countBeyond();
  drawHover();
  byId("unzoom").hidden = zoom[0] === 0 && zoom[1] === lastOp;
};

// Of the ops in one cell of a grid the worst, as on every picture of a run.
const drawPoints = plot => {
  const axes = measureOf(svg), cells = new Map();
  const across = op => axes.left + (op - zoom[0]) / (zoom[1] - zoom[0]) * (axes.right - axes.left);
  for (let op = zoom[0]; op <= zoom[1]; op++) {
    const row = ops.row[op], value = row < 0 ? null : number(plot.key, row);
    if (value === null || !isShown(row)) continue;
    const x = across(op), isZero = axes.log && value <= 0;
    const y = Number.isFinite(value) ? (isZero ? axes.zero : axes.place(value)) : axes.nonfinite;
    const rank = ops.ranks[op] ?? 0;
    const cell = `${Math.floor(x / axes.cell[0])} ${Math.floor(y / axes.cell[1])} ${rank > 0}`;
    const before = cells.get(cell);
    if (!before || rankOf(row) < rankOf(before.row)) cells.set(cell, {op, row, x, y, rank});
  }
  points = [...cells.values()].sort((a, b) => a.x - b.x);
  const drawn = [...points].sort((a, b) => (a.rank > 0) - (b.rank > 0) || rankOf(b.row) - rankOf(a.row));
  for (const point of drawn) {
    point.circle = svgElement("circle", {class: "point", "data-state": stateOf(point.row), cx: point.x, cy: point.y, r: point.rank ? 6 : 3});
    svg.append(point.circle);
    if (point.rank && point.rank < RANKS_SHOWN) svg.append(svgElement("text", {class: "label rank-mark", x: point.x + 9, y: point.y + 4}, point.rank));
  }
  if (zoom[0] === 0 && zoom[1] === lastOp) return;
  const [label] = svg.querySelectorAll(".along"), y = label?.getAttribute("y") ?? 0;
  svg.querySelectorAll(".along").forEach(node => node.remove());
  for (let at = 0; at <= 4; at++) {
    const op = Math.round(zoom[0] + at / 4 * (zoom[1] - zoom[0]));
    svg.append(svgElement("text", {class: "label middle along", x: across(op), y}, op));
  }
};

const rankOf = row => SEVERITY.indexOf(stateOf(row));

// Of the ops that pass the filters.
const countBeyond = () => {
  const limit = currentLimit();
  let measured = 0, beyond = 0;
  for (const row of ops.row) {
    if (row < 0 || !passesFilters[row] || number(currentPlot().key, row) === null) continue;
    measured++;
    beyond += isBeyond(row, limit);
  }
  byId("beyond-label").hidden = limit === null;
  byId("beyond-count").textContent = `${beyond.toLocaleString("en")} of ${measured.toLocaleString("en")} beyond`;
  if (document.activeElement !== byId("limit")) byId("limit").value = limit ?? "";
  byId("beyond").checked = view.beyond === "1";
};

// The run's own limit again if *text* is no number. The axes stay, or the limit would run away.
const moveLimit = text => {
  view.limit = text.trim() !== "" && Number.isFinite(Number(text)) ? text.trim() : "";
  if (view.beyond) return refresh();
  showLimit(svg, currentLimit());
  countBeyond();
  writeAddress();
};

const drawHover = () => {
  svg?.querySelectorAll(".near, .chosen").forEach(node => node.classList.remove("near", "chosen"));
  points.find(point => String(point.row) === view.select)?.circle.classList.add("chosen");
  const point = points[hovered];
  tip.hidden = !point;
  if (!point) return;
  point.circle.classList.add("near");
  const plot = currentPlot(), {row} = point, state = stateOf(row);
  tip.replaceChildren(
    element("b", {}, nameOf(row) + portOf(row)),
    element("span", {}, `${typeOf(row)}, op ${point.op}`),
    element("span", {}, `${plot.label} ${numberText(plot.key, row)}`),
    element("span", {class: "mark", "data-state": state}, `${MARKS[state]} ${state}`),
  );
  const room = plotBox.clientWidth + plotBox.scrollLeft - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(4, Math.min(point.x + 14, room))}px`;
  tip.style.top = `${point.y > plotBox.clientHeight / 2 ? point.y - tip.offsetHeight - 12 : point.y + 14}px`;
  byId("spoken").textContent = tip.innerText;
};

const zoomTo = (from, to) => {
  const span = Math.min(lastOp, Math.max(Math.min(8, lastOp), Math.round(to - from)));
  const start = Math.max(0, Math.min(Math.round(from), lastOp - span));
  zoom = [start, start + span];
  hovered = -1;
  drawPlot();
};

const opAt = x => {
  const axes = measureOf(svg);
  return zoom[0] + (x - axes.left) / (axes.right - axes.left) * (zoom[1] - zoom[0]);
};
const pointUnder = event => {
  const circle = nearestPoint(svg, ...inPicture(svg, event));
  return points.findIndex(point => point.circle === circle);
};
plotBox.addEventListener("pointerdown", event => {
  if (event.button === 0 && svg) brush = inPicture(svg, event)[0];
});
plotBox.addEventListener("pointermove", event => {
  if (!svg) return;
  const [x] = inPicture(svg, event);
  svg.querySelector(".brush")?.remove();
  if (brush !== null && Math.abs(x - brush) > 5) {
    const axes = measureOf(svg);
    svg.append(svgElement("rect", {class: "brush", x: Math.min(x, brush), y: axes.top, width: Math.abs(x - brush), height: axes.bottom - axes.top}));
    return;
  }
  hovered = pointUnder(event);
  drawHover();
});
plotBox.addEventListener("pointerup", event => {
  if (brush === null) return;
  const [x] = inPicture(svg, event), from = brush;
  brush = null;
  if (Math.abs(x - from) > 5) return zoomTo(...[opAt(from), opAt(x)].sort((a, b) => a - b));
  const at = pointUnder(event);
  if (at >= 0) choose(points[at].row, {show: true});
});
plotBox.addEventListener("pointerleave", () => {
  hovered = -1;
  drawHover();
});
plotBox.addEventListener("keydown", event => {
  const span = zoom[1] - zoom[0], middle = points[hovered]?.op ?? (zoom[0] + zoom[1]) / 2;
  const keys = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1),
    Enter: () => points[hovered] && choose(points[hovered].row, {show: true}),
    "+": () => zoomTo(middle - span / 4, middle + span / 4), "=": () => zoomTo(middle - span / 4, middle + span / 4),
    "-": () => zoomTo(middle - span, middle + span), 0: () => zoomTo(0, lastOp),
  };
  if (!(event.key in keys)) return;
  keys[event.key]();
  event.preventDefault();
});

const step = direction => {
  const from = hovered < 0 && direction < 0 ? points.length : hovered;
  hovered = Math.max(0, Math.min(points.length - 1, from + direction));
  drawHover();
};
