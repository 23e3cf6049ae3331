"use strict";
// In a file the graph is asked of what is packed in it; on a server's page this is not there.
const graphFile = (() => {
const packed = document.getElementById("graph-data");
const unpacked = async id => {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
const data = unpacked("graph-data").then(text => {
  const file = JSON.parse(text);
  // Where each op is: [the group, its place in it].
  file.places = Object.fromEntries(Object.entries(file.levels).map(([side, levels]) => [side, new Map(levels.flatMap(
    level => level.nodes.flatMap((node, n) => (node.group === null ? [[node.name, [level.group, n]]] : [])),
  ))]));
  return file;
});

const answers = {
  async levels({side, group, op}) {
    const {levels, places} = await data;
    if (op === undefined) return levels[side][group];
    if (!places[side].has(op)) throw new Error(`there is no op ${op}`);
    return levels[side][places[side].get(op)[0]];
  },
  async ops({where, side}) {
    const {levels} = await data, wanted = where.toLowerCase(), ops = [];
    for (const {nodes} of levels[side])
      for (const {name, group, type, state} of nodes) {
        if (group !== null || !`${name}\n${type}\n${state ?? ""}`.toLowerCase().includes(wanted)) continue;
        ops.push({op: name, type, state});
        if (ops.length === 12) return {ops};
      }
    return {ops};
  },
  async path({op}) {
    const path = (await data).paths[op];
    if (!path) throw new Error("the file has the paths of the first origins only");
    return {paths: [path]};
  },
};

// What a server's page of the op says, as far as the file knows it.
const made = (tag, properties, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const linked = (op, side, shown) => {
  const link = made("a", {className: "op", href: "#", textContent: shown(op)});
  Object.assign(link.dataset, {op, side});
  return link;
};
const listed = (title, entries) => (entries.length
  ? [made("section", {}, made("h3", {textContent: title}), made("ul", {className: "plain"}, ...entries.map(entry => made("li", {}, ...entry))))] : []);
const detail = async (op, side, {edgeText, number, shown}) => {
  const {levels, places, why} = await data, [group, n] = places[side].get(op), level = levels[side][group], node = level.nodes[n];
  const facts = Object.entries(node.figures).flatMap(([name, value]) => [made("div", {}, made("dt", {textContent: name.replaceAll("_", " ")}), made("dd", {textContent: number(value)}))]);
  const ends = (from, to) => level.edges.filter(edge => edge[from] === n).map(edge => {
    const far = level.nodes[edge[to]];
    return [far.group === null ? linked(far.name, side, shown) : shown(far.name), ` ${edgeText(edge)}`];
  });
  const sentences = side === "device" ? why[op] ?? [] : [];
  return [
    made("p", {className: "sides", textContent: shown([node.type, node.state, Object.keys(node.changes)[0]].filter(Boolean).join(" · "))}),
    ...(sentences.length ? [made("section", {id: "why"}, made("h3", {textContent: "Why"}), ...sentences.map(textContent => made("p", {textContent})))] : []),
    ...(facts.length ? [made("section", {}, made("dl", {className: "numbers"}, ...facts))] : []),
    ...listed(side === "device" ? "Originals" : "Device ops", node.partners.map(far => [linked(far, side === "device" ? "golden" : "device", shown)])),
    ...listed("Reads", ends("target", "source")),
    ...listed("Read by", ends("source", "target")),
  ];
};

return packed && {
  ask: (name, query) => answers[name](query),
  detail,
  layout: async () => URL.createObjectURL(new Blob([await unpacked("graph-layout")], {type: "text/javascript"})),
};
})();
