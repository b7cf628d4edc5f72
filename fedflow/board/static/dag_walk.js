// From one component of a graph to the next.

/** Return the component itself and all that it takes from or gives to. */
export function neighbours(graph, name) {
  const found = new Set([name]);
  for (const edge of graph.edges) {
    if (edge.source === name) found.add(edge.target);
    if (edge.target === name) found.add(edge.source);
  }
  return found;
}

/** Return the next component: `down` and `up` follow the lines, `left` and `right` stay in a layer. */
export function nextInDirection(graph, laid, name, direction) {
  const names = graph.nodes.map((node) => node.name);
  if (direction === "first") return names[0];
  if (direction === "last") return names[names.length - 1];
  const from = laid.boxes.get(name);
  let choice = [];
  if (direction === "down") choice = graph.edges.filter((edge) => edge.source === name).map((edge) => edge.target);
  if (direction === "up") choice = graph.edges.filter((edge) => edge.target === name).map((edge) => edge.source);
  if (direction === "left" || direction === "right") {
    const sign = direction === "left" ? -1 : 1;
    choice = names.filter((other) => {
      const at = laid.boxes.get(other);
      return Math.abs(at.y - from.y) < 2 && Math.sign(at.x - from.x) === sign;
    });
  }
  return nearest(laid, from, choice);
}

function nearest(laid, from, choice) {
  let best = null;
  let least = Infinity;
  for (const name of choice) {
    const at = laid.boxes.get(name);
    const way = Math.abs(at.x - from.x) + Math.abs(at.y - from.y);
    if (way < least) [best, least] = [name, way];
  }
  return best;
}
