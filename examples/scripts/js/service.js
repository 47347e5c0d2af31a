// What a long-running service leaves in memory: sessions, pages and handlers of all sizes, built side by side. Nine in ten go
// at random. `checksum` looks at all that is left.
let sessions = [], pages = [], handlers = [];

function run(scale) {
  let seed = 42;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const cities = ["Lisbon", "Nairobi", "Osaka", "Quito"];
  for (let i = 0; i < scale * 500; i++) {
    sessions.push({ id: i, token: `${random(1e9)}-${random(1e9)}`, user: { name: `user-${i}`, city: cities[random(4)] }, visited: Array.from({ length: 2 + random(7) }, (_, j) => `/shop/${random(90)}/item/${i * 10 + j}`) });
    pages.push({ key: `page:${i}`, body: `<h1>page ${i}</h1>` + "lorem ".repeat(random(60)) });
    let count = 0;
    handlers.push((step) => `topic.${i % 97}.${i}:${count += step}`);
  }
  const keep = () => random(1000) < 100;
  sessions = sessions.filter(keep);
  pages = pages.filter(keep);
  handlers = handlers.filter(keep);
  return sessions.length + pages.length + handlers.length;
}

function checksum() {
  let sum = 0;
  const add = (text) => { for (let i = 0; i < text.length; i++) sum = (sum * 31 + text.charCodeAt(i)) % 1000003; };
  for (const { token, user, visited } of sessions) { add(token); add(user.name); add(user.city); visited.forEach(add); }
  for (const { key, body } of pages) { add(key); add(body); }
  for (const handler of handlers) add(handler(0));
  return sum;
}
