// A side as pixels, and its colours.
class DrawnScene extends Scene {
  draw() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      this.paint();
    });
  }

  paint() {
    const {canvas, view} = this, ratio = devicePixelRatio || 1;
    const [wide, high] = [canvas.clientWidth, canvas.clientHeight];
    if (!wide || !high) return;
    if (canvas.width !== wide * ratio || canvas.height !== high * ratio) [canvas.width, canvas.height] = [wide * ratio, high * ratio];
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colours.page;
    pen.fillRect(0, 0, wide, high);
    pen.setTransform(ratio * view.k, 0, 0, ratio * view.k, view.x * ratio, view.y * ratio);
    const seen = [-view.x / view.k, -view.y / view.k, (wide - view.x) / view.k, (high - view.y) / view.k];
    const isSeen = (x, y, x2, y2) => x <= seen[2] && y <= seen[3] && x2 >= seen[0] && y2 >= seen[1];
    for (const item of this.items) if (item.isOpen && isSeen(item.x, item.y, item.x + item.w, item.y + item.h)) this.paintBox(pen, item);
    this.paintEdges(pen, isSeen);
    for (const item of this.items) if (!item.isOpen && isSeen(item.x, item.y, item.x + item.w, item.y + item.h)) this.paintBox(pen, item);
    if (this.path.size) this.paintPath(pen);
    this.paintMap();
  }

  // The followed path over the borders of groups, where edges stand for many.
  paintPath(pen) {
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 2.6 / Math.max(Math.min(this.view.k, 1), .35);
    pen.beginPath();
    const items = [...this.path].map(op => this.item(op)).filter(Boolean);
    for (let n = 1; n < items.length; n++) {
      const [a, b] = [items[n - 1], items[n]], down = b.y >= a.y + a.h;
      const [x, y, x2, y2] = [a.x + a.w / 2, down ? a.y + a.h : a.y, b.x + b.w / 2, down ? b.y : b.y + b.h];
      pen.moveTo(x, y);
      pen.bezierCurveTo(x, (y + y2) / 2, x2, (y + y2) / 2, x2, y2);
    }
    pen.stroke();
  }

  paintEdges(pen, isSeen) {
    const key = this.selected, {k} = this.view;
    const passes = [[false, colours.soft, 1.1], [true, colours.accent, 2.4]];
    for (const [strong, stroke, width] of passes) {
      pen.strokeStyle = pen.fillStyle = stroke;
      pen.lineWidth = width / Math.max(k, .35);
      pen.beginPath();
      for (const edge of this.edges) {
        const on = key !== null && edge.ends.includes(key);
        if (on !== strong || !isSeen(...edge.box)) continue;
        const points = edge.points, last = points.length - 1;
        pen.moveTo(...points[0]);
        for (let n = 1; n < last; n++) pen.quadraticCurveTo(...points[n], (points[n][0] + points[n + 1][0]) / 2, (points[n][1] + points[n + 1][1]) / 2);
        pen.lineTo(...points[last]);
        if (k > .3) {
          const [x, y] = points[last], [ox, oy] = points[last - 1], turn = Math.atan2(y - oy, x - ox);
          for (const side of [2.7, -2.7]) {
            pen.moveTo(x, y);
            pen.lineTo(x + 7 * Math.cos(turn + side), y + 7 * Math.sin(turn + side));
          }
        }
      }
      pen.stroke();
    }
    if (k < .6) return;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.lineWidth = 4;
    pen.strokeStyle = colours.page;
    pen.fillStyle = colours.soft;
    for (const {text, points, box} of this.edges) {
      if (!text || !isSeen(...box)) continue;
      const middle = points[points.length >> 1];
      pen.strokeText(text, middle[0], middle[1] + 4);
      pen.fillText(text, middle[0], middle[1] + 4);
    }
  }

  paintBox(pen, item) {
    const {x, y, w, h, node} = item, key = keyOf(node), {k} = this.view;
    pen.beginPath();
    pen.roundRect(x, y, w, h, 7);
    pen.fillStyle = item.isOpen ? (item.depth % 2 ? colours.page : colours.hover) : fill(node);
    pen.fill();
    const is = this.selected === key, partner = this.partners.has(key), near = this.path.has(key);
    pen.lineWidth = (is || partner || near ? 2.6 : 1) / Math.max(Math.min(k, 1), .3);
    pen.strokeStyle = is || partner || near ? colours.accent : colours.line;
    pen.setLineDash(node.fused === 0 || (partner && !is) ? [6, 4] : []);
    pen.stroke();
    pen.setLineDash([]);
    if (this.part.has(key)) {
      pen.lineWidth = 4 / Math.max(Math.min(k, 1), .3);
      pen.strokeStyle = this.isRefused ? colours.broken : colours.clean;
      pen.strokeRect(x - 5, y - 5, w + 10, h + 10);
    }
    if (node.state) {
      pen.fillStyle = colours[node.state] ?? colours.soft;
      pen.fillRect(x, y + 6, 5, h - 12);
    }
    if (k < .42 && !(item.isOpen && k > .2)) return;
    pen.textAlign = "left";
    pen.fillStyle = colours.ink;
    pen.font = `600 12px ${colours.mono}`;
    const glyph = node.group === null ? "" : item.isOpen ? "▾ " : "▸ ";
    pen.fillText(glyph + item.texts[0] + (item.isOpen ? `   ${item.texts[1]}` : ""), x + 12, y + 19);
    if (item.isOpen) return;
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = colour !== "state" ? colours.ink : colours.soft;
    item.texts.slice(1).forEach((text, n) => pen.fillText(text, x + 12, y + 35 + 16 * n));
    const marks = [node.name === marked.start && "start", node.name === marked.end && "end"].filter(Boolean).join(", ");
    if (!marks) return;
    pen.fillStyle = colours.accent;
    pen.textAlign = "right";
    pen.fillText(marks, x + w - 8, y + h - 6);
  }

  paintMap() {
    const {map, view, whole} = this;
    if (!whole) return;
    const [wide, high] = [map.clientWidth, map.clientHeight], pen = map.getContext("2d");
    [map.width, map.height] = [wide, high];
    // Each way by itself: a chain of a thousand ops would be a hair.
    const [kx, ky] = [wide / (whole.w || 1), high / (whole.h || 1)];
    const inView = whole.w * view.k <= this.canvas.clientWidth + 40 && whole.h * view.k <= this.canvas.clientHeight + 40;
    map.style.visibility = inView ? "hidden" : "visible";
    if (inView) return;
    pen.fillStyle = colours.panel;
    pen.fillRect(0, 0, wide, high);
    for (const {x, y, w, h, node, isOpen} of this.items) {
      pen.fillStyle = isOpen ? colours.hover : colours[mark(node)] ?? colours.line;
      pen.fillRect(x * kx, y * ky, Math.max(1, w * kx), Math.max(1, h * ky));
    }
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 2;
    pen.strokeRect(-view.x / view.k * kx, -view.y / view.k * ky, this.canvas.clientWidth / view.k * kx, this.canvas.clientHeight / view.k * ky);
    this.mapScale = [kx, ky];
  }
}

const readColours = () => {
  const style = getComputedStyle(document.documentElement), read = name => style.getPropertyValue(`--${name}`).trim();
  const names = ["page", "panel", "ink", "soft", "line", "hover", "accent", "mono", "origin", "inherited", "drifting", "explained", "clean", "broken"];
  colours = Object.fromEntries(names.map(name => [name, read(name)]));
  colours["not compared"] = read("not-compared");
};
const shade = value => {
  const [low, high] = SCALES[colour];
  if (value === null) return 1;
  const error = colour === "cosine_similarity" ? 1 - value : value;
  if (!(error > 0)) return 0;
  return Math.max(0, Math.min(1, (Math.log10(error) - low) / (high - low)));
};
// The colour that says at a glance what an op or a group is.
const mark = node => (colour === "change" ? CHANGES[Object.keys(node.changes)[0]] : node.state);
const tint = (name, strength) => `color-mix(in srgb, ${colours[name]} ${strength}%, ${colours.panel})`;
const fill = node => {
  if (colour === "change") {
    const name = mark(node);
    return name ? tint(name, 42) : colours.panel;
  }
  if (!(colour in SCALES)) return node.state === "origin" ? tint("origin", 18) : colours.panel;
  const value = node.figures[colour];
  if (value === undefined) return colours.panel;
  const step = Math.round(shade(value) * SHADES) / SHADES;
  return tint(step > .6 ? "broken" : "inherited", Math.round(step * 60));
};
