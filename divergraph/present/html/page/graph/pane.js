// The mouse, the keyboard, and the table for those who cannot see the picture.
class Pane extends SceneView {
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
