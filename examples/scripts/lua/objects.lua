-- Trees of objects with methods and closures: many small tables, built, walked and dropped.
local Node = {}
Node.__index = Node

local function build(depth, value)
  if depth == 0 then return setmetatable({ value = value, get = function() return value end }, Node) end
  return setmetatable({ value = value, left = build(depth - 1, 2 * value), right = build(depth - 1, 2 * value + 1) }, Node)
end

function Node:sum()
  if self.get then return self.get() end
  return (self.value + self.left:sum() - self.right:sum()) % 1000003
end

function run()
  local sum, kept = 0, {}
  for round = 1, math.floor(60 * scale) do
    local tree = build(10, round)
    sum = (sum * 31 + tree:sum()) % 1000003
    kept[round % 5] = tree
  end
  return sum
end
