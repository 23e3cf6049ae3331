"use strict";
// The graph as a canvas: groups unfold in place, the other side follows by lineage, and the address
// says what is selected.
(() => {
const room = document.querySelector("[data-graph]");
if (!room) return;
const at = name => room.dataset[name];
const find = selector => room.querySelector(selector);
const named = name => find(`input[name=${name}]`).value;
// Letters that are not seen, or turn a line around, are written out.
const shown = text => text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, letter => `\\u${letter.codePointAt(0).toString(16).padStart(4, "0")}`);
const PAD = 16, HEAD = 30, LETTER = 7.3, MOST_LETTERS = 34, SHADES = 5;
// What a change since another run is drawn as, the worst first.
const CHANGES = {
  "newly guilty": "origin", "newly suspect": "inherited", worse: "inherited", "still guilty": "drifting",
  gone: "not compared", better: "clean", fixed: "clean",
};
const SCALES = {
  relative_euclidean_distance: [-6, 0], max_absolute_error: [-6, 1], introduced: [-6, 0],
  suspicion: [-1, 3], blame_share: [-3, 0], cosine_similarity: [-7, 0],
};
const marked = {start: named("start"), end: named("end")};
// A file has no server to ask, and keeps what is selected behind the #.
const file = typeof graphFile === "undefined" ? null : graphFile;
const params = () => new URLSearchParams(file ? location.hash.slice(1) : location.search);
const against = named("against"), usual = against ? "change" : "state";
let colour = params().get("colour") ?? "", chosen = null, following = null, colours = {};

// --- answers of the server -----------------------------------------------------------------
const status = text => { find(".graph-status").textContent = shown(text); };
const ask = async (name, query) => {
  if (file) return file.ask(name, query);
  const url = new URL(at(name), location.href);
  for (const [name, value] of Object.entries(query)) if (value !== "" && value !== null) url.searchParams.set(name, value);
  const answer = await fetch(url, {headers: {Accept: "application/json"}});
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Error(problem.detail ?? problem.title ?? `HTTP ${answer.status}`);
  }
  return answer.json();
};

let worker = null;
const waiting = new Map();
let asked = 0;
const startWorker = async () => {
  worker = new Worker(file ? await file.layout() : at("layout"));
  worker.onmessage = ({data}) => {
    waiting.get(data.id)?.(data);
    waiting.delete(data.id);
  };
  worker.onerror = event => status(`The graph cannot be laid out: ${event.message}`);
};
const placed = (sizes, edges) => new Promise(done => {
  const id = ++asked;
  waiting.set(id, done);
  worker.postMessage({id, sizes, edges});
});

// --- texts -----------------------------------------------------------------------------------
const short = (text, most = MOST_LETTERS) => {
  if (text.length <= most) return text;
  const tail = Math.ceil(most * .6);
  return `${text.slice(0, most - tail - 1)}…${text.slice(-tail)}`;
};
const below = (name, around) => (around && name.startsWith(`${around}/`) ? name.slice(around.length + 1) : name);
// JSON has null for what is not finite.
const number = value => (value === null ? "not finite" : value === 0 ? "0" : Math.abs(value) >= .001 && Math.abs(value) < 1e5 ? String(Number(value.toPrecision(4))) : value.toExponential(2));
const size = bytes => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  for (; bytes >= 1024 && step < 4; step++) bytes /= 1024;
  return `${Number(bytes.toPrecision(3))} ${units[step]}`;
};
const edgeText = edge => {
  if (edge.shape === null) return edge.edges > 1 ? `×${edge.edges}` : "";
  return [`[${edge.shape.join(",")}]`, edge.dtype, edge.bytes === null ? "" : size(edge.bytes)].filter(Boolean).join(" ");
};
const lines = (node, around) => {
  const told = [];
  if (node.group === null) {
    told.push([node.type, node.state].filter(Boolean).join(" · "));
    if (node.fused === 0) told.push("inserted by the compiler");
    if (node.fused > 1) told.push(`fused of ${node.fused}`);
  } else {
    told.push(`${node.ops.toLocaleString("en")} ops`);
    const worst = Object.entries(node.states)[0];
    if (worst) told[0] += ` · ${worst[1].toLocaleString("en")} ${worst[0]}`;
  }
  const changes = Object.entries(node.changes);
  if (changes.length) told.push(changes.map(([kind, count]) => (node.group === null ? kind : `${count.toLocaleString("en")} ${kind}`)).join(", "));
  const figure = node.figures[colour in SCALES ? colour : "relative_euclidean_distance"];
  if (figure !== undefined) told.push(`${colour in SCALES ? colour.replaceAll("_", " ") : "relative error"} ${number(figure)}`);
  return [short(shown(below(node.name, around))), ...told.map(shown)];
};
const keyOf = node => (node.group === null ? node.name : node.group);

// --- a side ----------------------------------------------------------------------------------
class Pane {
  constructor(box) {
    this.box = box;
    this.side = box.dataset.side;
    this.canvas = box.querySelector("canvas");
    this.map = box.querySelector(".minimap");
    this.levels = new Map();
    this.open = new Set([0]);
    this.items = [];
    this.edges = [];
    this.view = {x: 0, y: 0, k: 1};
    this.selected = null;
    this.partners = new Set();
    this.path = new Set();
    this.part = new Set();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  async level(query) {
    const level = await ask("levels", {side: this.side, against, ...query});
    this.levels.set(level.group, level);
    return level;
  }

  async needed(group) {
    return this.levels.get(group) ?? this.level({group});
  }

  // The scene: each open group is laid out by itself, and is a box of that size in the one around.
  async arranged() {
    const made = await this.laid(0);
    this.items = [];
    this.edges = [];
    this.flatten(made, 0, 0, 0);
    this.whole = {w: made.width, h: made.height};
    this.draw();
    this.table();
  }

  async laid(group) {
    const level = await this.needed(group);
    const around = level.trail.at(-1).name, inner = new Map();
    await Promise.all(level.nodes.map(async (node, n) => {
      if (node.group !== null && this.open.has(node.group)) inner.set(n, await this.laid(node.group));
    }));
    const texts = level.nodes.map(node => lines(node, around));
    const sizes = level.nodes.map((node, n) => {
      const made = inner.get(n), room = letters => Math.max(110, letters * LETTER + 30);
      // Opened, its name and count stand in one line.
      if (made) return [Math.max(made.width + 2 * PAD, room(texts[n][0].length + texts[n][1].length + 6)), made.height + HEAD + PAD];
      return [room(Math.max(texts[n][0].length + (node.group === null ? 0 : 2), ...texts[n].map(text => text.length * .85))), 12 + 16 * texts[n].length];
    });
    const mark = JSON.stringify(sizes);
    if (level.mark !== mark) {
      level.made = await placed(sizes, level.edges.map(edge => [edge.source, edge.target]));
      level.mark = mark;
    }
    return {...level.made, level, texts, sizes, inner};
  }

  flatten(made, left, top, depth) {
    made.level.nodes.forEach((node, n) => {
      const [w, h] = made.sizes[n], x = left + made.places[n][0], y = top + made.places[n][1];
      const inside = made.inner.get(n);
      this.items.push({x, y, w, h, node, texts: made.texts[n], depth, isOpen: Boolean(inside), level: made.level, n});
      if (inside) this.flatten(inside, x + (w - inside.width) / 2, y + HEAD, depth + 1);
    });
    made.level.edges.forEach((edge, n) => {
      const points = made.routes[n].map(([x, y]) => [x + left, y + top]);
      const xs = points.map(p => p[0]), ys = points.map(p => p[1]);
      this.edges.push({
        points, edge, text: edgeText(edge),
        ends: [keyOf(made.level.nodes[edge.source]), keyOf(made.level.nodes[edge.target])],
        box: [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)],
      });
    });
  }

  // --- drawing -------------------------------------------------------------------------------
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

  // --- looking around ------------------------------------------------------------------------
  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const {view} = this, k = Math.min(4, Math.max(.01, view.k * factor));
    view.x = x - (x - view.x) * k / view.k;
    view.y = y - (y - view.y) * k / view.k;
    view.k = k;
    this.draw();
  }

  fit() {
    if (this.whole) this.frame(0, 0, this.whole.w, this.whole.h);
  }

  frame(x, y, w, h) {
    const {canvas, view} = this;
    view.k = Math.min(1.2, (canvas.clientWidth - 30) / w, (canvas.clientHeight - 30) / h);
    view.x = (canvas.clientWidth - w * view.k) / 2 - x * view.k;
    view.y = Math.max(15, (canvas.clientHeight - h * view.k) / 2) - y * view.k;
    this.draw();
  }

  centre(item, k = Math.max(this.view.k, .8)) {
    const {view, canvas} = this;
    view.k = k;
    view.x = canvas.clientWidth / 2 - (item.x + item.w / 2) * k;
    view.y = canvas.clientHeight / 2 - (item.y + Math.min(item.h, canvas.clientHeight / k * .8) / 2) * k;
    this.draw();
  }

  item(key) {
    return this.items.find(item => keyOf(item.node) === key);
  }

  under(x, y) {
    const [left, top] = [(x - this.view.x) / this.view.k, (y - this.view.y) / this.view.k];
    let best = null;
    for (const item of this.items)
      if (left >= item.x && top >= item.y && left <= item.x + item.w && top <= item.y + item.h && (!best || item.depth >= best.depth)) best = item;
    return best && best.isOpen && top > best.y + HEAD ? null : best;
  }

  // A group opens and folds where it is: its corner stays.
  async toggle(group) {
    const before = this.item(group);
    if (!this.open.delete(group)) this.open.add(group);
    status(this.open.has(group) ? "Opening…" : "");
    await this.arranged();
    status("");
    const after = this.item(group);
    if (before && after) {
      this.view.x += (before.x - after.x) * this.view.k;
      this.view.y += (before.y - after.y) * this.view.k;
    }
    this.draw();
  }

  async reveal(ops) {
    for (const op of ops) {
      if (this.item(op)) continue;
      const level = await this.level({op});
      for (const {group} of level.trail) this.open.add(group);
    }
    await this.arranged();
  }

  // --- the mouse and the keyboard ------------------------------------------------------------
  listen() {
    const {canvas} = this, held = new Map();
    let moved = 0, apart = 0;
    const place = event => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.x, event.clientY - box.y];
    };
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      if (event.shiftKey) {
        this.view.x -= event.deltaY || event.deltaX;
        return this.draw();
      }
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? .05 : .0016)), ...place(event));
    }, {passive: false});
    canvas.addEventListener("pointerdown", event => {
      canvas.setPointerCapture(event.pointerId);
      held.set(event.pointerId, place(event));
      moved = apart = 0;
    });
    canvas.addEventListener("pointermove", event => {
      const now = place(event), was = held.get(event.pointerId);
      if (!was) {
        canvas.style.cursor = this.under(...now) ? "pointer" : "grab";
        return;
      }
      held.set(event.pointerId, now);
      moved += Math.abs(now[0] - was[0]) + Math.abs(now[1] - was[1]);
      if (held.size === 2) {
        const [a, b] = [...held.values()], far = Math.hypot(a[0] - b[0], a[1] - b[1]);
        if (apart) this.zoom(far / apart, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
        apart = far;
      } else if (moved > 4) {
        this.view.x += now[0] - was[0];
        this.view.y += now[1] - was[1];
        this.draw();
      }
    });
    for (const kind of ["pointerup", "pointercancel"])
      canvas.addEventListener(kind, event => {
        const was = held.get(event.pointerId);
        held.delete(event.pointerId);
        if (!was || moved > 4 || kind === "pointercancel") return;
        const item = this.under(...was);
        if (!item) return;
        if (item.node.group === null) choose(this, item.node.name);
        else {
          this.selected = item.node.group;
          this.toggle(item.node.group);
        }
      });
    canvas.addEventListener("keydown", event => this.key(event));
    this.map.addEventListener("pointerdown", event => {
      const box = this.map.getBoundingClientRect();
      this.centre({x: (event.clientX - box.x) / this.mapScale[0], y: (event.clientY - box.y) / this.mapScale[1], w: 0, h: 0}, this.view.k);
    });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const item = this.item(this.selected), keys = {
      "+": () => this.zoom(1.3), "=": () => this.zoom(1.3), "-": () => this.zoom(1 / 1.3), 0: () => this.fit(),
      ArrowDown: () => this.go(item, 1), ArrowUp: () => this.go(item, -1),
      ArrowRight: () => this.beside(item, 1), ArrowLeft: () => this.beside(item, -1),
      Enter: () => item && (item.node.group === null ? choose(this, item.node.name) : this.toggle(item.node.group)),
      Escape: () => this.fold(item),
    };
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  }

  // Along an edge, the thickest first; at the end of a group's edges to the group around.
  go(item, way) {
    if (!item) return this.take(this.items[0]);
    const [from, to] = way > 0 ? ["source", "target"] : ["target", "source"];
    const edge = item.level.edges.filter(each => each[from] === item.n).sort((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0))[0];
    if (edge) return this.take(this.item(keyOf(item.level.nodes[edge[to]])));
    if (item.isOpen && way > 0) return this.take(this.item(keyOf(this.levels.get(item.node.group).nodes[0])));
    this.take(this.item(item.level.group));
  }

  beside(item, way) {
    const shown = this.items.filter(each => !item || each.level === item.level);
    this.take(item ? shown[(item.n + way + shown.length) % shown.length] : this.items[0]);
  }

  fold(item) {
    const group = item && item.isOpen ? item.node.group : item?.level.group;
    if (!group) return;
    this.selected = group;
    if (this.open.has(group)) this.toggle(group).then(() => this.take(this.item(group)));
  }

  take(item) {
    if (!item) return;
    this.selected = keyOf(item.node);
    this.centre(item, this.view.k);
    status([item.node.name, ...item.texts.slice(1)].join(", ") + (item.node.group === null ? "; Enter shows it" : "; Enter opens or folds it"));
  }

  // What the picture shows, for those who cannot see it.
  table() {
    const group = this.item(this.selected)?.level ?? this.levels.get(0);
    const body = this.box.querySelector("tbody"), around = group.trail.at(-1).name;
    this.box.querySelector(".graph-where").textContent = shown(around) || "the whole graph";
    body.replaceChildren(...group.nodes.map(node => {
      const row = document.createElement("tr"), head = document.createElement("th"), button = document.createElement("button");
      head.scope = "row";
      button.type = "button";
      button.textContent = shown(below(node.name, around));
      button.addEventListener("click", () => {
        if (node.group === null) return choose(this, node.name, {move: true});
        this.open.delete(node.group);
        this.selected = keyOf(node);
        this.toggle(node.group).then(async () => {
          this.selected = keyOf((await this.needed(node.group)).nodes[0]);
          this.table();
        });
      });
      head.append(button);
      const reads = group.edges.filter(edge => group.nodes[edge.target] === node).map(edge => below(group.nodes[edge.source].name, around));
      const error = node.figures.relative_euclidean_distance;
      const changes = against ? [Object.keys(node.changes).join(", ")] : [];
      const cells = [node.group === null ? node.type : `${node.ops} ops`, node.state ?? "", ...changes, error === undefined ? "" : number(error), short(shown(reads.join(", ")), 80)];
      row.append(head, ...cells.map(text => Object.assign(document.createElement("td"), {textContent: text})));
      return row;
    }));
  }
}

// --- colours ---------------------------------------------------------------------------------
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

// --- what is selected ------------------------------------------------------------------------
const panes = [...room.querySelectorAll(".pane")].map(box => new Pane(box));
const other = pane => panes.find(each => each !== pane);

const writeAddress = () => {
  const query = params();
  const write = (name, value) => (value ? query.set(name, value) : query.delete(name));
  write("op", chosen?.op);
  write("side", chosen && chosen.pane.side !== "device" ? chosen.pane.side : "");
  write("colour", colour === usual ? "" : colour);
  write("path", following === null ? "" : following || "worst");
  history.replaceState(null, "", file ? `#${query}` : `${location.pathname}${String(query) ? `?${query}` : ""}`);
};

const detail = async pane => {
  const place = find(".graph-detail"), op = chosen.op, query = params();
  const title = document.createElement("h2");
  if (file) {
    title.textContent = shown(op);
    place.replaceChildren(title, ...await file.detail(op, pane.side, {edgeText, number, shown}));
    return;
  }
  const url = new URL(at("op"), location.href);
  url.searchParams.set("op", op);
  if (pane.side !== "device") url.searchParams.set("side", pane.side);
  for (const name of ["start", "end"]) if (query.get(name)) url.searchParams.set(name, query.get(name));
  const answer = await fetch(url), page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (chosen?.op !== op) return;
  const link = document.createElement("a");
  link.href = url;
  link.textContent = shown(op);
  link.className = "graph-page";
  title.append(link);
  const parts = ["header .sides", ".actions", "#why", "#lineage", "#tensors"].map(name => page.querySelector(name)).filter(Boolean);
  place.replaceChildren(title, ...parts.map(part => document.adoptNode(part)));
  place.querySelector(".actions a").remove();  // "See it in the graph"
  // "Start a part here" comes back to this picture.
  for (const mark of place.querySelectorAll(".actions a")) {
    const to = new URL(mark.href), back = new URL(location.href);
    for (const name of ["start", "end"]) if (to.searchParams.get(name)) back.searchParams.set(name, to.searchParams.get(name));
    mark.href = back;
  }
  place.scrollTop = 0;
};

const choose = async (pane, op, {move = false} = {}) => {
  chosen = {pane, op};
  for (const each of panes) [each.selected, each.partners] = [null, new Set()];
  pane.selected = op;
  try {
    if (!pane.item(op) || move) await pane.reveal([op]);
    const item = pane.item(op);
    if (!item) throw new Error(`there is no op ${op}`);
    if (move) pane.centre(item);
    writeAddress();
    const far = other(pane), partners = item.node.partners;
    if (far) {
      far.partners = new Set(partners);
      if (partners.length) {
        await far.reveal(partners.slice(0, 12));
        const first = far.item(partners[0]);
        if (first) far.centre(first);
      }
    }
    for (const each of panes) each.draw();
    pane.table();
    status([op, ...item.texts.slice(1)].join(", "));
    await detail(pane);
  } catch (error) {
    status(error.message);
  }
};

// The part between the marks: its ops are framed; a refusal says why, and where it could be cut.
const showPart = async () => {
  const place = document.querySelector("[data-part-words]");
  if (!place || file) return;
  const {side, ops, inputs, outputs, refused, why_not: whyNot} = await ask("part", marked);
  const pane = panes.find(each => each.side === side);
  pane.part = new Set(ops);
  pane.isRefused = refused.length > 0;
  const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
  const lines = refused.map(({sentence, starts, ends}) => {
    const line = Object.assign(document.createElement("p"), {className: "problem", textContent: `Refused: ${shown(sentence)}. `});
    for (const [mark, names] of [["start", starts], ["end", ends]])
      for (const name of names) {
        const to = new URL(location.href), link = document.createElement("a");
        to.searchParams.set(mark, name);
        [link.href, link.textContent] = [to, `${mark} at ${shown(name)}`];
        line.append(link, " ");
      }
    return line;
  });
  if (whyNot) lines.push(Object.assign(document.createElement("p"), {className: "problem", textContent: shown(whyNot)}));
  place.textContent = ops.length ? `The part: ${count(ops.length, "op")} of the ${side === "golden" ? "original" : "graph"}, ${count(inputs, "tensor")} in, ${count(outputs, "tensor")} out` : "";
  place.after(...lines);
  place.parentElement.querySelector(".tools").hidden = !ops.length || lines.length > 0;
  pane.draw();
};

// The path on which most of the error is carried, from the selected op to an output.
const follow = async ends => {
  const pane = panes.find(each => each.side === "device");
  const op = chosen?.pane === pane ? chosen.op : named("first");
  pane.path = new Set();
  following = null;
  if (ends !== null && op) {
    status("Following the error…");
    try {
      const {paths} = await ask("path", {op, to: ends});
      if (!paths.length) throw new Error(`no error is carried from ${op} to an output`);
      const [{to, steps, error}] = paths;
      pane.path = new Set(steps.map(step => step.op));
      following = ends;
      await pane.reveal([...pane.path]);
      const items = pane.items.filter(item => pane.path.has(item.node.name));
      const left = Math.min(...items.map(i => i.x)), top = Math.min(...items.map(i => i.y));
      pane.frame(left, top, Math.max(...items.map(i => i.x + i.w)) - left, Math.max(...items.map(i => i.y + i.h)) - top);
      status(`The error of ${op} goes over ${steps.length} ops to ${to}${typeof error === "number" ? `, where it is ${number(error)}` : ""}`);
    } catch (error) {
      status(error.message);
    }
  }
  find("[data-follow]").setAttribute("aria-pressed", String(following !== null));
  writeAddress();
  pane.draw();
};

// A name of an op beside the picture selects it there.
for (const list of document.querySelectorAll(".graph-detail, .graph-changes ul")) list.addEventListener("click", event => {
  const link = event.target.closest("a.op");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const url = new URL(link.href), op = link.dataset.op ?? url.searchParams.get("op");
  const pane = panes.find(each => each.side === (link.dataset.side ?? url.searchParams.get("side") ?? "device"));
  if (!op || !pane || (!file && url.pathname !== new URL(at("op"), location.href).pathname)) return;
  event.preventDefault();
  choose(pane, op, {move: true});
});

// --- finding ---------------------------------------------------------------------------------
const field = find("[data-find]"), hits = find(".graph-hits");
let timer = 0;
field.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const text = field.value.trim();
    hits.replaceChildren();
    if (!text) return;
    try {
      for (const pane of panes) {
        const {ops} = await ask("ops", {where: text, side: pane.side});
        if (field.value.trim() !== text) return;
        for (const {op, type, state} of ops) {
          const entry = document.createElement("li"), button = document.createElement("button");
          button.type = "button";
          button.textContent = [op, type, pane.side === "device" ? state : "original"].filter(Boolean).map(shown).join(" · ");
          button.addEventListener("click", () => {
            hits.replaceChildren();
            choose(pane, op, {move: true});
          });
          entry.append(button);
          hits.append(entry);
        }
      }
      if (!hits.children.length) hits.append(Object.assign(document.createElement("li"), {textContent: "no op"}));
    } catch (error) {
      hits.replaceChildren(Object.assign(document.createElement("li"), {textContent: error.message}));
    }
  }, 200);
});
field.addEventListener("keydown", event => {
  if (event.key === "Escape") hits.replaceChildren();
  if (event.key === "Enter") hits.querySelector("button")?.click();
});

if (file) document.addEventListener("keydown", event => {  // pages of a server have this key all
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.tagName === "INPUT") return;
  event.preventDefault();
  field.focus();
});

find("[data-colour]").addEventListener("change", async event => {
  colour = event.target.value;
  writeAddress();
  for (const pane of panes) await pane.arranged();
});
find("[data-against]")?.addEventListener("change", event => {
  const to = new URL(location.href);
  for (const name of ["colour", "op", "side", "path"]) to.searchParams.delete(name);
  if (event.target.value) to.searchParams.set("against", event.target.value);
  else to.searchParams.delete("against");
  location.href = to;
});
find("[data-follow]").addEventListener("click", () => follow(following === null ? "" : null));
find("[data-show]").addEventListener("change", event => {
  room.dataset.show = event.target.value;
  for (const pane of panes) pane.draw();
});
for (const button of room.querySelectorAll("[data-zoom]"))
  button.addEventListener("click", () => {
    const pane = panes.find(each => each.box.contains(button));
    if (button.dataset.zoom === "fit") pane.fit();
    else pane.zoom(Number(button.dataset.zoom));
  });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColours();
  for (const pane of panes) pane.draw();
});

const start = async () => {
  readColours();
  if (![...find("[data-colour]").options].some(each => each.value === colour)) colour = usual;
  find("[data-colour]").value = colour;
  const first = panes.find(pane => pane.side === (params().get("side") ?? "device")) ?? panes[0];
  const op = params().get("op") ?? named("first");
  status("Laying out…");
  try {
    await startWorker();
    await Promise.all(panes.map(async pane => {
      await pane.arranged();
      pane.fit();
    }));
    status("");
    const path = params().get("path");
    if (op) await choose(first, op, {move: true});
    await showPart();
    if (path) await follow(path === "worst" ? "" : path);
  } catch (error) {
    status(error.message);
  }
  room.dataset.ready = "yes";
};
start();
})();
