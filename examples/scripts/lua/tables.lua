-- An index of orders by customer under churn: tables that grow and shrink, and many of them.
function run()
  local orders, customers, sum, seed = {}, {}, 0, 3
  local function random(n) seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n end
  for id = 1, math.floor(80000 * scale) do
    local name = "customer-" .. random(400)
    local order = { id = id, customer = name, price = random(10000) / 100, lines = {} }
    for line = 1, 1 + id % 4 do order.lines[line] = { line = line, price = order.price } end
    orders[id] = order
    local own = customers[name]
    if not own then own = {}; customers[name] = own end
    own[id] = order
    local old = orders[id - 2000]
    if old then
      orders[id - 2000] = nil
      customers[old.customer][old.id] = nil
      for _, line in ipairs(old.lines) do sum = (sum + math.floor(line.price)) % 1000003 end
    end
  end
  return sum
end
