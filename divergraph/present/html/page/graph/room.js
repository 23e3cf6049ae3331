// The page around the graph: what it was asked to show, answers of the server, texts.
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
    if (worst) told[0] += ` · ${worst[1].toLocaleString("en")} ${worst[0]}${worst[0] === "origin" && worst[1] > 1 ? "s" : ""}`;
  }
  const changes = Object.entries(node.changes);
  if (changes.length) told.push(changes.map(([kind, count]) => (node.group === null ? kind : `${count.toLocaleString("en")} ${kind}`)).join(", "));
  const figure = node.figures[colour in SCALES ? colour : "relative_euclidean_distance"];
  if (figure !== undefined) told.push(`${colour in SCALES ? colour.replaceAll("_", " ") : "relative error"} ${number(figure)}`);
  return [short(shown(below(node.name, around))), ...told.map(shown)];
};
const keyOf = node => (node.group === null ? node.name : node.group);
