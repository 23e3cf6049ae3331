// The scatter plot: points on a canvas, axes and limits above it as SVG.
const plotBox = byId("plot");
const canvas = plotBox.querySelector("canvas");
const svg = plotBox.querySelector("svg");
const tip = plotBox.querySelector(".tip");
const EDGE = {left: 64, right: 18, top: 30, bottom: 36};
const LANE = 22; // a lane for exact zeros, and one for NaN and Inf
const RANKS_SHOWN = 12;
const lastOp = Math.max(1, ops.name.length - 1);
let zoom = [0, lastOp];
let points = []; // {row, x, y}, from left to right
let hovered = -1;
let passes = new Uint8Array(rowCount);
let shownScale = null;
let dragged = null; // {from, to}: part of the run; {scale}: the limit

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const stateColour = state => colour(state.replace(" ", "-"));
const isLog = plot => (view.log === "" ? plot.log : view.log === "1");

const draw = (tag, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  svg.append(made);
  return made;
};

const superscript = power => String(power).replace(/./g, char => "⁰¹²³⁴⁵⁶⁷⁸⁹"[char] ?? "⁻");

// What is on the y axis: place() gives pixels, ticks are [value, text].
const verticalScale = (plot, values, height) => {
  const limits = [currentLimit(), plot.warn].filter(value => value !== null);
  const top = EDGE.top + LANE, bottom = height - EDGE.bottom - LANE;
  let low = Infinity, high = -Infinity;
  const log = isLog(plot);
  for (const value of [...limits, ...values])
    if (Number.isFinite(value) && (!log || value > 0)) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  if (low > high) [low, high] = log ? [1e-3, 1] : [0, 1];
  return (log ? logScale : linearScale)(low, high, top, bottom, plot);
};

const logScale = (low, high, top, bottom) => {
  const last = Math.ceil(Math.log10(high) + 1e-9);
  const first = Math.max(Math.floor(Math.log10(low)), last - 14); // what is smaller lies on the edge
  const span = Math.max(1, last - first), step = Math.ceil(span / 8);
  const ticks = [];
  for (let power = last; power >= first; power -= step) ticks.push([10 ** power, power >= -2 && power <= 3 ? String(Number((10 ** power).toPrecision(1))) : `10${superscript(power)}`]);
  const place = value => bottom - (Math.max(Math.log10(value), first) - first) / span * (bottom - top);
  const valueAt = y => 10 ** (first + (bottom - y) / (bottom - top) * span);
  return {place: value => (value > 0 ? place(value) : bottom + LANE * 0.7), valueAt, ticks, zero: bottom + LANE * 0.7, top, bottom};
};

const niceStep = least => {
  const size = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map(times => times * size).find(each => each >= least * (1 - 1e-9));
};

const linearScale = (low, high, top, bottom, plot) => {
  if (plot.key === "cosine_similarity") high = 1;
  const margin = (high - low || Math.abs(high) || 1) * 0.04;
  low -= margin;
  if (plot.key !== "cosine_similarity") high += margin;
  else high += margin / 2;
  const step = niceStep((high - low) / 7);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const ticks = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step)
    if (plot.key !== "cosine_similarity" || value <= 1 + 1e-12) ticks.push([value, value.toFixed(digits)]);
  const valueAt = y => low + (bottom - y) / (bottom - top) * (high - low);
  return {place: value => bottom - (value - low) / (high - low) * (bottom - top), valueAt, ticks, zero: null, top, bottom};
};

const drawPlot = () => {
  const plot = currentPlot();
  const width = plotBox.clientWidth, height = plotBox.clientHeight;
  if (!width) return;
  const values = data.numbers[plot.key];
  // While its limit is dragged the axis stays as it is, or the limit would run away.
  const scale = dragged?.scale ?? verticalScale(plot, values.filter(value => value !== null), height);
  shownScale = scale;
  const across = op => EDGE.left + (op - zoom[0]) / (zoom[1] - zoom[0]) * (width - EDGE.left - EDGE.right);
  points = [];
  let odd = 0;
  for (let row = 0; row < rowCount; row++) {
    const value = values[row], op = tensors.op[row];
    if (value === null || op < zoom[0] || op > zoom[1]) continue;
    const finite = Number.isFinite(value);
    if (Number.isNaN(value) && LEVELS[tensors.level[row]] === "pass") continue; // not defined there
    odd += !finite;
    points.push({row, x: across(op), y: finite ? scale.place(value) : EDGE.top + LANE * 0.4});
  }
  drawAxes(plot, scale, width, height, odd);
  drawPoints(width, height);
  drawOrigins(across, height);
  drawHover();
  plotBox.dataset.points = points.length;
  plotBox.dataset.metric = plot.key;
  countBeyond();
  byId("log").checked = isLog(plot);
  byId("unzoom").hidden = zoom[0] === 0 && zoom[1] === lastOp;
};

const countBeyond = () => {
  const limit = currentLimit();
  let measured = 0, beyond = 0;
  for (let row = 0; row < rowCount; row++) {
    measured += number(currentPlot().key, row) !== null;
    beyond += isBeyond(row, limit);
  }
  byId("beyond-label").hidden = limit === null;
  byId("beyond-count").textContent = `${beyond.toLocaleString("en")} of ${measured.toLocaleString("en")} beyond`;
  if (document.activeElement !== byId("limit")) byId("limit").value = limit ?? "";
  byId("beyond").checked = view.beyond === "1";
};

// The run's own limit again if *text* is no number.
const moveLimit = text => {
  view.limit = text.trim() !== "" && Number.isFinite(Number(text)) ? text.trim() : "";
  redraw();
};

// The plot, and what is listed where that depends on it.
const redraw = () => {
  if (view.beyond) return refresh();
  drawPlot();
  writeAddress();
};

const drawAxes = (plot, scale, width, height, odd) => {
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const right = width - EDGE.right, floor = height - EDGE.bottom;
  for (const [value, text] of scale.ticks) {
    const y = scale.place(value);
    draw("line", {class: "tick", x1: EDGE.left, x2: right, y1: y, y2: y});
    draw("text", {class: "label end", x: EDGE.left - 8, y: y + 4}, text);
  }
  if (scale.zero !== null) draw("text", {class: "label end", x: EDGE.left - 8, y: scale.zero + 4}, "0");
  if (odd) draw("text", {class: "label end", x: EDGE.left - 8, y: EDGE.top + LANE * 0.4 + 4}, "NaN Inf");
  draw("line", {class: "axis", x1: EDGE.left, x2: right, y1: floor, y2: floor});
  const count = Math.max(2, Math.min(10, Math.floor(width / 110)));
  const step = Math.max(1, niceStep((zoom[1] - zoom[0]) / count));
  for (let op = Math.ceil(zoom[0] / step) * step; op <= zoom[1]; op += step) {
    const x = EDGE.left + (op - zoom[0]) / (zoom[1] - zoom[0]) * (right - EDGE.left);
    draw("text", {class: "label middle", x, y: floor + 16}, op.toLocaleString("en"));
  }
  draw("text", {class: "label middle", x: (EDGE.left + right) / 2, y: height - 4}, "op in execution order");
  for (const [kind, text] of [["warn", "warning"], ["fail", "limit"]]) {
    const bound = kind === "fail" ? currentLimit() : plot.warn;
    if (bound === null) continue;
    const y = scale.place(bound), past = plot.lower ? floor - y : y - EDGE.top;
    if (kind === "fail") draw("rect", {class: "past", x: EDGE.left, y: plot.lower ? y : EDGE.top, width: right - EDGE.left, height: Math.max(0, past)});
    draw("line", {class: `limit ${kind}`, x1: EDGE.left, x2: right, y1: y, y2: y, "data-bound": bound});
    draw("text", {class: `label end ${kind}`, x: right - 4, y: y + (plot.lower === (kind === "fail") ? 13 : -4)}, `${text} ${bound}`);
  }
};

const drawPoints = (width, height) => {
  const dense = window.devicePixelRatio || 1;
  canvas.width = width * dense;
  canvas.height = height * dense;
  const pen = canvas.getContext("2d");
  pen.scale(dense, dense);
  const size = points.length < 400 ? 4 : points.length < 4000 ? 3 : points.length < 20000 ? 2.3 : 1.7;
  const byState = new Map(SEVERITY.map(state => [state, []]));
  const faint = [];
  for (const point of points) (passes[point.row] ? byState.get(stateOf(point.row)) : faint).push(point);
  pen.globalAlpha = 0.25;
  pen.fillStyle = colour("not-compared");
  for (const {x, y} of faint) pen.fillRect(x - 1, y - 1, 2, 2);
  for (const state of [...SEVERITY].reverse()) {
    pen.globalAlpha = state === "origin" || state === "broken" || points.length < 400 ? 1 : 0.75;
    pen.fillStyle = pen.strokeStyle = stateColour(state);
    for (const {x, y} of byState.get(state)) shape(pen, state, x, y, size);
  }
};

const shape = (pen, state, x, y, size) => {
  pen.beginPath();
  if (state === "origin") {
    const r = size + 3;
    pen.moveTo(x, y - r); pen.lineTo(x + r, y); pen.lineTo(x, y + r); pen.lineTo(x - r, y); pen.closePath();
    pen.fill();
    pen.strokeStyle = colour("panel");
    pen.lineWidth = 1.5;
    pen.stroke();
  } else if (state === "broken") {
    pen.lineWidth = 2;
    pen.moveTo(x - size, y - size); pen.lineTo(x + size, y + size); pen.moveTo(x - size, y + size); pen.lineTo(x + size, y - size);
    pen.stroke();
  } else if (state === "inherited" || state === "drifting") {
    const tall = state === "inherited" ? size : -size;
    pen.moveTo(x - size, y - tall); pen.lineTo(x + size, y - tall); pen.lineTo(x, y + tall); pen.closePath();
    pen.fill();
  } else {
    pen.arc(x, y, size * 0.8, 0, 7);
    pen.fill();
  }
};

const drawOrigins = (across, height) => {
  let last = -Infinity;
  for (const [op, place] of Object.entries(ops.ranks).sort((a, b) => a[0] - b[0])) {
    if (op < zoom[0] || op > zoom[1]) continue;
    const x = across(Number(op));
    draw("line", {class: "start", x1: x, x2: x, y1: EDGE.top - 6, y2: height - EDGE.bottom});
    if (place > RANKS_SHOWN || x - last < 18) continue;
    draw("text", {class: "label middle start", x, y: EDGE.top - 11}, `◆${place}`);
    last = x;
  }
};

const drawHover = () => {
  svg.querySelectorAll(".hover").forEach(each => each.remove());
  const chosen = points.find(point => String(point.row) === view.select);
  if (chosen) draw("circle", {class: "hover chosen", cx: chosen.x, cy: chosen.y, r: 9});
  const point = points[hovered];
  tip.hidden = !point;
  if (!point) return;
  draw("circle", {class: "hover", cx: point.x, cy: point.y, r: 8});
  const plot = currentPlot(), {row} = point, state = stateOf(row);
  tip.replaceChildren(
    element("b", {}, nameOf(row) + portOf(row)),
    element("span", {}, `${typeOf(row)}, op ${tensors.op[row]}`),
    element("span", {}, `${plot.label} ${shownNumber(plot.key, number(plot.key, row))}`),
    element("span", {class: "mark", "data-state": state}, `${MARKS[state]} ${state}`),
  );
  const room = plotBox.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(4, Math.min(point.x + 14, room))}px`;
  tip.style.top = `${point.y > plotBox.clientHeight / 2 ? point.y - tip.offsetHeight - 12 : point.y + 14}px`;
  byId("spoken").textContent = tip.innerText;
};

// The point nearest to a place, if one is near.
const pointAt = (x, y) => {
  let low = 0, high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle].x < x - 12) low = middle + 1;
    else high = middle;
  }
  let best = -1, least = 12 * 12;
  for (let at = low; at < points.length && points[at].x <= x + 12; at++) {
    const distance = (points[at].x - x) ** 2 + (points[at].y - y) ** 2;
    const better = passes[points[at].row] ? distance : distance + 60;
    if (better < least) [best, least] = [at, better];
  }
  return best;
};

const zoomTo = (from, to) => {
  const span = Math.min(lastOp, Math.max(Math.min(8, lastOp), Math.round(to - from)));
  const start = Math.max(0, Math.min(Math.round(from), lastOp - span));
  zoom = [start, start + span];
  hovered = -1;
  drawPlot();
};

const opAt = x => zoom[0] + (x - EDGE.left) / (plotBox.clientWidth - EDGE.left - EDGE.right) * (zoom[1] - zoom[0]);

const inBox = event => {
  const box = plotBox.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
const isOnLimit = event => {
  const limit = currentLimit();
  return limit !== null && shownScale !== null && Math.abs(shownScale.place(limit) - inBox(event)[1]) < 5;
};
plotBox.addEventListener("pointerdown", event => {
  if (event.button !== 0) return;
  dragged = isOnLimit(event) ? {scale: shownScale} : {from: inBox(event)[0], to: null};
  plotBox.setPointerCapture(event.pointerId);
});
plotBox.addEventListener("pointermove", event => {
  const [x, y] = inBox(event);
  plotBox.classList.toggle("on-limit", dragged ? "scale" in dragged : isOnLimit(event));
  if (dragged?.scale) return moveLimit(String(Number(dragged.scale.valueAt(y).toPrecision(3))));
  if (dragged && Math.abs(x - dragged.from) > 5) {
    dragged.to = x;
    svg.querySelectorAll(".brush").forEach(each => each.remove());
    draw("rect", {class: "brush", x: Math.min(x, dragged.from), y: EDGE.top, width: Math.abs(x - dragged.from), height: plotBox.clientHeight - EDGE.top - EDGE.bottom});
    return;
  }
  hovered = pointAt(x, y);
  drawHover();
});
plotBox.addEventListener("pointerup", event => {
  const drag = dragged;
  dragged = null;
  if (drag?.scale) return drawPlot();
  if (drag?.to != null) return zoomTo(...[opAt(drag.from), opAt(drag.to)].sort((a, b) => a - b));
  const found = pointAt(...inBox(event));
  if (drag && found >= 0) choose(points[found].row, {show: true});
});
plotBox.addEventListener("pointerleave", () => {
  hovered = -1;
  drawHover();
});
plotBox.addEventListener("keydown", event => {
  const span = zoom[1] - zoom[0], middle = hovered >= 0 ? tensors.op[points[hovered].row] : (zoom[0] + zoom[1]) / 2;
  if (event.key === "ArrowRight" || event.key === "ArrowLeft") step(event.key === "ArrowRight" ? 1 : -1);
  else if (event.key === "Enter" && hovered >= 0) choose(points[hovered].row, {show: true});
  else if (event.key === "+" || event.key === "=") zoomTo(middle - span / 4, middle + span / 4);
  else if (event.key === "-") zoomTo(middle - span, middle + span);
  else if (event.key === "0") zoomTo(0, lastOp);
  else return;
  event.preventDefault();
});

const step = direction => {
  let at = hovered < 0 && direction < 0 ? points.length : hovered;
  do at += direction; while (points[at] && !passes[points[at].row]);
  if (points[at]) hovered = at;
  drawHover();
};
