-- What a long-running service leaves in memory: sessions, parsed records, cached pages and event handlers, built side by
-- side and of all sizes. After the rush hour nine in ten of them go, at random, and the rest stays scattered over the heap.
--
-- The host may set `scale` (1 builds some 250 MiB). Afterwards it calls `checksum`, once before it meshes the heap and once
-- after, and expects the same number.

math.randomseed(42)
local scale = scale or 1
local random, format, rep = math.random, string.format, string.rep

local KEPT = 0.10 -- the share that survives the rush hour
local ROUNDS = math.max(1, math.floor(75000 * scale))

local sessions, records, pages, handlers = {}, {}, {}, {}

local CITIES = { "Lisbon", "Nairobi", "Osaka", "Quito", "Reykjavik", "Tbilisi", "Utrecht", "Wellington" }
local WORDS = {}
for i = 1, 500 do WORDS[i] = rep(string.char(97 + i % 26), 2 + i % 7) .. i end

local function new_session(id)
  local session = {
    id = id,
    token = format("%08x-%08x-%08x", random(0, 0x7fffffff), random(0, 0x7fffffff), id),
    user = { name = "user-" .. id, city = CITIES[random(#CITIES)], score = random() * 100 },
    visited = {},
  }
  for i = 1, random(2, 8) do session.visited[i] = format("/shop/%d/item/%d", random(90), id * 10 + i) end
  return session
end

-- A line as it comes over the wire, cut into fields.
local function new_record(id)
  local line = format("%d;%s;%s;%d;%.3f", id, WORDS[random(#WORDS)] .. id, CITIES[random(#CITIES)], random(1e6), random())
  local record = {}
  for field in line:gmatch("[^;]+") do record[#record + 1] = field end
  record.tags = { "tag" .. random(1e6), "tag" .. random(1e6) }
  return record
end

local function new_page(id)
  local parts = { format("<h1>page %d</h1>", id) }
  for i = 2, random(4, 60) do parts[i] = WORDS[random(#WORDS)] end
  return { key = "page:" .. id, body = table.concat(parts, " "), etag = format("%016x", random(0, 0x7fffffff)), hits = 0 }
end

local function new_handler(id)
  local count, topic = 0, "topic." .. id % 97 .. "." .. id
  return function(step)
    count = count + step
    return topic, count
  end
end

for i = 1, ROUNDS do
  sessions[i] = new_session(i)
  pages[i] = new_page(i)
  for j = 2 * i - 1, 2 * i do
    records[j] = new_record(j)
    handlers[j] = new_handler(j)
  end
end

-- Keeps a random tenth, in order.
local function thin_out(list)
  local kept = {}
  for i = 1, #list do
    if random() < KEPT then kept[#kept + 1] = list[i] end
  end
  return kept
end

sessions, records, pages, handlers = thin_out(sessions), thin_out(records), thin_out(pages), thin_out(handlers)

local unpack = string.unpack

-- Every byte of a string or a number goes into `sum`.
local function mix(sum, value)
  if math.type(value) == "integer" then return (sum ~ value) * 0x100000001b3 end
  local text = tostring(value)
  local i = 1
  while i + 7 <= #text do
    sum = (sum ~ unpack("<i8", text, i)) * 0x100000001b3
    i = i + 8
  end
  for j = i, #text do sum = (sum ~ text:byte(j)) * 0x100000001b3 end
  return sum
end

local function mix_all(sum, list)
  for i = 1, #list do sum = mix(sum, list[i]) end
  return sum
end

-- A number that depends on every byte that survived.
function checksum()
  local sum = 0x4bf29ce484222325
  for _, session in ipairs(sessions) do
    sum = mix(mix(sum, session.id), session.token)
    sum = mix_all(sum, { session.user.name, session.user.city, session.user.score })
    sum = mix_all(sum, session.visited)
  end
  for _, record in ipairs(records) do sum = mix_all(mix_all(sum, record), record.tags) end
  for _, page in ipairs(pages) do sum = mix_all(sum, { page.key, page.body, page.etag, page.hits }) end
  for _, handler in ipairs(handlers) do
    local topic, count = handler(0)
    sum = mix(mix(sum, topic), count)
  end
  return sum
end
