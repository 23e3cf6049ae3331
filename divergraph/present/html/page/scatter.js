// What the plot of a metric does under the mouse, on pages and in reports: its picture is made with
// its axes, and says on itself how these measure.
const measureOf = svg => {
  const axes = JSON.parse(svg.dataset.scale), span = axes.high - axes.low, height = axes.top - axes.bottom;
  return {
    ...axes,
    place: value => axes.bottom + ((axes.log ? Math.max(Math.log10(value), axes.low) : value) - axes.low) / span * height,
    valueAt: y => {
      const at = axes.low + (y - axes.bottom) / height * span;
      return axes.log ? 10 ** at : at;
    },
  };
};

// Worse than the limit; what is no finite number is.
const isWorse = (value, limit, lower) => (lower ? !(value >= limit) : !(value <= limit));

const inPicture = (svg, event) => {
  const box = svg.getBoundingClientRect();
  return [event.clientX - box.x, event.clientY - box.y];
};

const svgElement = (tag, attributes, text = "") => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return node;
};

// Draw the limit at another place; null for none.
const showLimit = (svg, limit) => {
  svg.querySelectorAll(".fail").forEach(node => node.remove());
  if (limit === null) return;
  const axes = measureOf(svg), end = axes.right + 6;
  const within = axes.log && limit <= 0 ? axes.bottom : axes.place(limit);
  const y = Math.max(axes.top, Math.min(axes.bottom, within));
  const first = svg.querySelector("a, .point");
  svg.insertBefore(svgElement("line", {class: "limit fail", x1: axes.left - 6, x2: end, y1: y, y2: y}), first);
  svg.insertBefore(svgElement("text", {class: "label end fail", x: end, y: y - 4}, "fail"), first);
};

// A limit may be dragged: *moved* hears the new one.
const dragLimit = (svg, moved) => {
  const isOn = event => {
    const line = svg.querySelector("line.fail");
    return line !== null && Math.abs(line.y1.baseVal.value - inPicture(svg, event)[1]) < 6;
  };
  let held = false;
  svg.addEventListener("pointerdown", event => {
    held = event.button === 0 && isOn(event);
    if (!held) return;
    event.preventDefault();
    event.stopPropagation();
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", event => {
    svg.classList.toggle("on-limit", held || isOn(event));
    if (!held) return;
    event.stopPropagation();
    const axes = measureOf(svg), y = Math.max(axes.top, Math.min(axes.bottom, inPicture(svg, event)[1]));
    moved(Number(axes.valueAt(y).toPrecision(3)));
  });
  for (const kind of ["pointerup", "pointercancel"])
    svg.addEventListener(kind, event => {
      if (held) event.stopPropagation();
      held = false;
    });
};

const nearestPoint = (svg, x, y) => {
  let best = null, least = 24 * 24;
  for (const point of svg.querySelectorAll("circle.point")) {
    const far = (point.cx.baseVal.value - x) ** 2 + (point.cy.baseVal.value - y) ** 2;
    if (far <= least) [best, least] = [point, far];
  }
  return best;
};
