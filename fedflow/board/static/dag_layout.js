// Where the boxes of a graph stand, and how the lines between them run.

import { layers } from "./dag_layers.js";

export const HEIGHT = 74; // pixels of a box
const LEAST = 128; // pixels that a box is wide at least
const MOST = 204;
const LETTER = 7.4; // pixels of a letter of a name, which is bold
const SMALL_LETTER = 5.9;
const TIME = 9; // letters that a duration may take behind a module

const MARGIN = 16;
const ACROSS = 26; // pixels between two boxes of a layer
const DOWN = 30; // pixels between two layers
const MANY = 48; // boxes from which dagre takes too long

/** Tell whether dagre shall lay out a graph. */
export function isSmall(graph) {
  return graph.nodes.length <= MANY && graph.edges.length <= 3 * MANY;
}

/** Return { width, height, box, sideways, boxes: Map name -> {x, y}, edges: [path] }; x and y are
 * corners, `box` is the size of all boxes. A graph goes downwards; one that were longer than wide
 * goes to the right instead (`sideways`). Without `dagre` boxes stand in plain layers. */
export function layOut(graph, dagre = null) {
  const box = { width: widthOf(graph), height: HEIGHT };
  const plain = byLayers(graph, box);
  const sideways = plain.height > plain.width;
  const size = sideways ? { width: HEIGHT, height: box.width } : box; // as if it went downwards
  const { boxes: middles, width, height, ways } = dagre ? byDagre(graph, size, dagre) : sideways ? byLayers(graph, size) : plain;
  const corners = new Map();
  for (const [name, { x, y }] of middles) corners.set(name, { x: x - size.width / 2, y: y - size.height / 2 });
  const turn = ({ x, y }) => (sideways ? { x: y, y: x } : { x, y });
  const ports = new Map(graph.nodes.map((node) => [node.name, { inputs: node.inputs.length, outputs: node.outputs.length }]));
  const edges = graph.edges.map((edge) => {
    const [source, target] = [corners.get(edge.source), corners.get(edge.target)];
    const inner = ways(edge).filter(({ y }) => y > source.y + size.height + 4 && y < target.y - 4);
    const from = onSide(source, size, ports.get(edge.source).outputs, edge.output, size.height);
    const to = onSide(target, size, ports.get(edge.target).inputs, edge.input, 0);
    return curve([from, ...inner, to], turn);
  });
  const boxes = new Map([...corners].map(([name, at]) => [name, turn(at)]));
  return { ...(sideways ? { width: height, height: width } : { width, height }), box, sideways, boxes, edges };
}

/** Return where the port at `place` of `count` stands, from the corner of its box. */
export function portAt({ box, sideways }, count, place, isOutput) {
  const size = sideways ? { width: box.height, height: box.width } : box;
  const { x, y } = onSide({ x: 0, y: 0 }, size, count, place, isOutput ? size.height : 0);
  return sideways ? { x: y, y: x } : { x, y };
}

function onSide(corner, size, count, place, down) {
  return { x: corner.x + (size.width * (place + 1)) / (count + 1), y: corner.y + down };
}

/** Return how wide boxes must be for their texts. */
function widthOf(graph) {
  const texts = graph.nodes.map((node) => Math.max(node.name.length * LETTER, (node.module.length + TIME) * SMALL_LETTER));
  return Math.round(Math.min(MOST, Math.max(LEAST, 36 + Math.max(...texts))));
}

function byLayers(graph, size) {
  const found = layers(graph, { ...size, across: ACROSS, down: DOWN, margin: MARGIN });
  return { ...found, ways: () => [] };
}

function byDagre(graph, size, { graphlib, layout }) {
  const laid = new graphlib.Graph({ multigraph: true });
  laid.setGraph({ rankdir: "TB", nodesep: ACROSS, ranksep: DOWN, marginx: MARGIN, marginy: MARGIN });
  laid.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) laid.setNode(node.name, { ...size });
  // several lines between the same two boxes are one for the layout
  for (const { source, target } of graph.edges) laid.setEdge(source, target, {});
  layout(laid);
  const boxes = new Map(laid.nodes().map((name) => [name, laid.node(name)]));
  const { width, height } = laid.graph();
  return { boxes, width, height, ways: ({ source, target }) => laid.edge(source, target).points.slice(1, -1) };
}

function curve(points, turn) {
  const at = (x, y) => {
    const turned = turn({ x: round(x), y: round(y) });
    return `${turned.x} ${turned.y}`;
  };
  let path = `M${at(points[0].x, points[0].y)}`;
  for (let i = 1; i < points.length; i += 1) {
    const [from, to] = [points[i - 1], points[i]];
    const middle = (from.y + to.y) / 2;
    path += ` C${at(from.x, middle)} ${at(to.x, middle)} ${at(to.x, to.y)}`;
  }
  return path;
}

function round(value) {
  return Math.round(value * 10) / 10;
}
