-- A tenant of a server: each request fills a cache with documents of all sizes, and drops most of what was there, at random.
local cache, seed = {}, 5
local function random(n) seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n end

function request()
  for key in pairs(cache) do
    if random(1000) < 900 then cache[key] = nil end
  end
  for i = 1, math.floor(20000 * scale) do
    local key = random(1 << 30)
    cache[key] = { key = key, body = ("x"):rep(random(200)), tags = { "a" .. key, "b" .. key } }
  end
  return #tostring(seed)
end

-- Documents are kept that nobody needs any more.
function rest()
  for key in pairs(cache) do
    if random(1000) < 900 then cache[key] = nil end
  end
  return 0
end

function checksum()
  local sum = 0
  for key, document in pairs(cache) do sum = (sum + key + #document.body * 7 + #document.tags[2]) % 1000003 end
  return sum
end

function hoard()
  local kept = {}
  while true do kept[#kept + 1] = { #kept, tostring(#kept) } end
end
