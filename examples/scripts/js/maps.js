// Maps, sets and closures under churn: an index of orders by customer, kept up while orders come and go.
function run(scale) {
  const orders = new Map(), byCustomer = new Map();
  let sum = 0, seed = 3;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  for (let id = 0; id < scale * 600; id++) {
    const customer = `customer-${random(400)}`, price = random(10000) / 100;
    const order = { id, customer, lines: Array.from({ length: 1 + id % 4 }, (_, line) => ({ line, price })), total: () => order.lines.reduce((all, { price }) => all + price, 0) };
    orders.set(id, order);
    let own = byCustomer.get(customer);
    if (own === undefined) byCustomer.set(customer, own = new Set());
    own.add(order);
    if (orders.size > 2000) {
      const old = orders.get(id - 2000);
      orders.delete(id - 2000);
      byCustomer.get(old.customer).delete(old);
      sum = (sum * 31 + Math.round(old.total())) % 1000003;
    }
  }
  for (const [customer, own] of byCustomer) sum = (sum * 31 + customer.length * own.size) % 1000003;
  return sum;
}
