"use strict";
// Beside the page: places the boxes of one group in layers. Asked {id, sizes, edges}, answers
// {id, width, height, places, routes}; places are upper left corners, routes points from box to box.
const GAP = 18;

const inRows = (numbers, sizes, width) => {
  // Boxes without edges: rows, or they would make a single endless one.
  const places = new Map();
  let x = 0, y = 0, tall = 0, wide = 0;
  for (const number of numbers) {
    const [w, h] = sizes[number];
    if (x && x + w > width) [x, y, tall] = [0, y + tall + GAP, 0];
    places.set(number, [x, y]);
    x += w + GAP;
    tall = Math.max(tall, h);
    wide = Math.max(wide, x - GAP);
  }
  return {places, width: wide, height: numbers.length ? y + tall : 0};
};

const layered = (numbers, sizes, edges) => {
  const graph = new dagre.graphlib.Graph({multigraph: false});
  // The better ranks take too long for many boxes.
  graph.setGraph({nodesep: 22, ranksep: 44, edgesep: 12, ranker: numbers.length > 120 ? "longest-path" : "network-simplex"});
  graph.setDefaultEdgeLabel(() => ({}));
  for (const number of numbers) graph.setNode(String(number), {width: sizes[number][0], height: sizes[number][1]});
  for (const [source, target] of edges) graph.setEdge(String(source), String(target));
  if (numbers.length) dagre.layout(graph);
  return graph;
};

self.onmessage = ({data: {id, sizes, edges}}) => {
  const linked = new Set(edges.flat());
  const joined = [...linked].sort((a, b) => a - b), alone = sizes.map((_, n) => n).filter(n => !linked.has(n));
  const graph = layered(joined, sizes, edges);
  const {width = 0, height = 0} = joined.length ? graph.graph() : {};
  const area = alone.reduce((sum, n) => sum + (sizes[n][0] + GAP) * (sizes[n][1] + GAP), 0);
  const rows = inRows(alone, sizes, Math.max(width, Math.sqrt(area) * 1.4));
  const below = joined.length && alone.length ? height + 3 * GAP : 0;
  const wide = Math.max(width, rows.width);
  const places = sizes.map(([w, h], number) => {
    if (!linked.has(number)) {
      const [x, y] = rows.places.get(number);
      return [x, y + below];
    }
    const node = graph.node(String(number));
    return [node.x - w / 2 + (wide - width) / 2, node.y - h / 2];
  });
  const routes = edges.map(([source, target]) =>
    graph.edge(String(source), String(target)).points.map(point => [point.x + (wide - width) / 2, point.y]));
  self.postMessage({id, width: wide, height: below ? below + rows.height : Math.max(height, rows.height), places, routes});
};
