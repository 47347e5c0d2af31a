// Documents written as JSON, read back, changed and compared: trees of small objects with many property names.
function build(depth, seed) {
  if (depth === 0) return seed % 3 === 0 ? `leaf ${seed}` : seed % 3 === 1 ? seed / 4 : seed % 2 === 0;
  if (seed % 2 === 0) return Array.from({ length: 2 + seed % 4 }, (_, i) => build(depth - 1, seed * 7 + i));
  return { id: seed, name: `node-${seed}`, tags: ["a", "b", `t${seed % 97}`], child: build(depth - 1, seed + 11), next: build(depth - 1, seed + 4) };
}

function run(scale) {
  let sum = 0;
  const cache = new Map();
  for (let i = 0; i < scale * 4; i++) {
    const text = JSON.stringify(build(5, i % 50 + 1));
    const copy = JSON.parse(text, (key, value) => typeof value === "number" ? value + 1 : value);
    cache.set(i % 40, copy);
    sum = (sum * 31 + JSON.stringify(copy).length) % 1000003;
  }
  return (sum + cache.size) % 1000003;
}
