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

const ALONG = { ArrowDown: "next", ArrowUp: "before", ArrowLeft: "aside-", ArrowRight: "aside+", Home: "first", End: "last" };
const SIDEWAYS = { ...ALONG, ArrowRight: "next", ArrowLeft: "before", ArrowUp: "aside-", ArrowDown: "aside+" };

/** Return the component to which a key leads: along the lines, or within a layer; null if none. */
export function nextByKey(graph, laid, name, key) {
  const step = (laid.sideways ? SIDEWAYS : ALONG)[key];
  const names = graph.nodes.map((node) => node.name);
  if (step === "first") return names[0];
  if (step === "last") return names[names.length - 1];
  const from = laid.boxes.get(name);
  let choice = [];
  if (step === "next") choice = graph.edges.filter((edge) => edge.source === name).map((edge) => edge.target);
  if (step === "before") choice = graph.edges.filter((edge) => edge.target === name).map((edge) => edge.source);
  if (step?.startsWith("aside")) {
    const [layer, aside] = laid.sideways ? ["x", "y"] : ["y", "x"];
    const sign = step.endsWith("-") ? -1 : 1;
    choice = names.filter((other) => {
      const at = laid.boxes.get(other);
      return Math.abs(at[layer] - from[layer]) < 2 && Math.sign(at[aside] - from[aside]) === sign;
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
