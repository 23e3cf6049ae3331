// What is selected, on both sides, in the address and beside the picture; parts and paths.
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
