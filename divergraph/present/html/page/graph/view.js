// Which part of a side is seen: pan, zoom, and groups that open where they are.
class SceneView extends DrawnScene {
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
}
