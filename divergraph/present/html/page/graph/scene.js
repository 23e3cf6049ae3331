// The boxes and lines of a side: each open group is laid out by itself.
class Scene {
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
}
