// Where the boxes of a graph stand, and how the lines between them run.

import { layers } from "./dag_layers.js";

export const BOX = { width: 188, height: 74 };

const MARGIN = 16;
const ACROSS = 26; // pixels between two boxes of a layer
const DOWN = 44; // pixels between two layers
const MANY = 48; // boxes from which dagre takes too long

/** Tell whether dagre shall lay out a graph. */
export function isSmall(graph) {
  return graph.nodes.length <= MANY && graph.edges.length <= 3 * MANY;
}

/** Return { width, height, boxes: Map name -> {x, y}, edges: [path] }; x and y are corners. Without
 * `dagre` boxes stand in plain layers. */
export function layOut(graph, dagre = null) {
  const { boxes: middles, width, height, ways } = dagre ? byDagre(graph, dagre) : byLayers(graph);
  const boxes = new Map();
  for (const [name, { x, y }] of middles) boxes.set(name, { x: x - BOX.width / 2, y: y - BOX.height / 2 });
  const ports = new Map(graph.nodes.map((node) => [node.name, { inputs: node.inputs.length, outputs: node.outputs.length }]));
  const edges = graph.edges.map((edge) => {
    const inner = ways(edge).filter((point) => isBetween(point, boxes, edge));
    const from = portAt(boxes.get(edge.source), ports.get(edge.source).outputs, edge.output, BOX.height);
    const to = portAt(boxes.get(edge.target), ports.get(edge.target).inputs, edge.input, 0);
    return curve([from, ...inner, to]);
  });
  return { width, height, boxes, edges };
}

function byLayers(graph) {
  const found = layers(graph, { ...BOX, across: ACROSS, down: DOWN, margin: MARGIN });
  return { ...found, ways: () => [] };
}

function byDagre(graph, { graphlib, layout }) {
  const laid = new graphlib.Graph({ multigraph: true });
  laid.setGraph({ rankdir: "TB", nodesep: ACROSS, ranksep: DOWN, marginx: MARGIN, marginy: MARGIN });
  laid.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) laid.setNode(node.name, { width: BOX.width, height: BOX.height });
  // several lines between the same two boxes are one for the layout
  for (const { source, target } of graph.edges) laid.setEdge(source, target, {});
  layout(laid);
  const boxes = new Map(laid.nodes().map((name) => [name, laid.node(name)]));
  const { width, height } = laid.graph();
  return { boxes, width, height, ways: ({ source, target }) => laid.edge(source, target).points.slice(1, -1) };
}

function isBetween(point, boxes, edge) {
  return point.y > boxes.get(edge.source).y + BOX.height + 4 && point.y < boxes.get(edge.target).y - 4;
}

/** Return where the port at `place` of `count` stands on the upper or lower side of a box. */
export function portAt(box, count, place, down) {
  return { x: box.x + (BOX.width * (place + 1)) / (count + 1), y: box.y + down };
}

function curve(points) {
  let path = `M${round(points[0].x)} ${round(points[0].y)}`;
  for (let i = 1; i < points.length; i += 1) {
    const [from, to] = [points[i - 1], points[i]];
    const middle = round((from.y + to.y) / 2);
    path += ` C${round(from.x)} ${middle} ${round(to.x)} ${middle} ${round(to.x)} ${round(to.y)}`;
  }
  return path;
}

function round(value) {
  return Math.round(value * 10) / 10;
}
