// Finding ops, the tools above the picture, and the first picture.
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
