// Where the boxes of a large graph stand: in layers, each box near what it takes from and gives to.
// A fraction of a second for hundreds of boxes, where dagre takes many.

const SWEEPS = 6;

/** Return { boxes: Map name -> {x, y} (middles), width, height }. */
export function layers(graph, { width, height, across, down, margin }) {
  const up = new Map(graph.nodes.map((node) => [node.name, []]));
  const downwards = new Map(graph.nodes.map((node) => [node.name, []]));
  const known = new Set();
  for (const { source, target } of graph.edges) {
    const way = `${source}\n${target}`;
    if (known.has(way)) continue;
    known.add(way);
    up.get(target).push(source);
    downwards.get(source).push(target);
  }
  const rows = rank(graph, up);
  const place = new Map();
  for (const row of rows) row.forEach((name, index) => place.set(name, index));
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const near = sweep % 2 === 0 ? up : downwards;
    const order = sweep % 2 === 0 ? rows : rows.toReversed();
    for (const row of order) sortByMiddle(row, near, place);
  }
  const step = width + across;
  const x = new Map();
  const widest = Math.max(...rows.map((row) => row.length));
  for (const row of rows) {
    const start = ((widest - row.length) * step) / 2;
    row.forEach((name, index) => x.set(name, start + index * step));
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const near = sweep % 2 === 0 ? up : downwards;
    const order = sweep % 2 === 0 ? rows : rows.toReversed();
    for (const row of order) pull(row, near, x, step);
  }
  return placed(rows, x, { width, height, down, margin });
}

/** Return the layers: a box stands below all that it takes from. Nodes come in such an order. */
function rank(graph, up) {
  const depth = new Map();
  const rows = [];
  for (const { name } of graph.nodes) {
    const at = 1 + Math.max(-1, ...up.get(name).map((source) => depth.get(source) ?? -1));
    depth.set(name, at);
    (rows[at] ??= []).push(name);
  }
  return rows;
}

function sortByMiddle(row, near, place) {
  const middle = new Map();
  for (const name of row) {
    const others = near.get(name).map((other) => place.get(other));
    middle.set(name, others.length ? others.reduce((sum, value) => sum + value, 0) / others.length : place.get(name));
  }
  row.sort((one, other) => middle.get(one) - middle.get(other));
  row.forEach((name, index) => place.set(name, index));
}

/** Move the boxes of a layer towards their neighbours, without changing their order. */
function pull(row, near, x, step) {
  const wanted = row.map((name) => {
    const others = near.get(name).map((other) => x.get(other));
    return others.length ? others.reduce((sum, value) => sum + value, 0) / others.length : x.get(name);
  });
  const left = [...wanted];
  for (let i = 1; i < row.length; i += 1) left[i] = Math.max(left[i], left[i - 1] + step);
  const right = [...wanted];
  for (let i = row.length - 2; i >= 0; i -= 1) right[i] = Math.min(right[i], right[i + 1] - step);
  row.forEach((name, i) => x.set(name, (left[i] + right[i]) / 2));
}

function placed(rows, x, { width, height, down, margin }) {
  const least = Math.min(...x.values());
  const most = Math.max(...x.values());
  const boxes = new Map();
  rows.forEach((row, layer) => {
    for (const name of row) {
      boxes.set(name, { x: margin + x.get(name) - least + width / 2, y: margin + layer * (height + down) + height / 2 });
    }
  });
  return { boxes, width: most - least + width + 2 * margin, height: rows.length * (height + down) - down + 2 * margin };
}
