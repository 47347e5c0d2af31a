// Pages of text put together from pieces, split, and searched again: strings of all lengths, most of which soon die.
function run(scale) {
  const words = [];
  for (let i = 0; i < 300; i++) words.push(String.fromCharCode(97 + i % 26).repeat(2 + i % 9) + i);
  let sum = 0, seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const kept = [];
  for (let page = 0; page < scale * 60; page++) {
    const parts = [`<h1>page ${page}</h1>`];
    const count = 10 + random(60);
    for (let i = 0; i < count; i++) parts.push(words[random(words.length)] + (i % 7 === 0 ? ".\n" : ""));
    const text = parts.join(" ");
    let upper = "";
    for (const line of text.split("\n")) upper += line.trim().replace(/([a-z])\1+/g, "$1").toUpperCase() + "|";
    sum = (sum * 31 + upper.length + upper.indexOf("Z")) % 1000003;
    kept[page % 500] = upper.slice(random(40));
  }
  return (sum + kept.join("").length) % 1000003;
}
