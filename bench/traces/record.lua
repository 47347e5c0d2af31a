-- The program behind lua.trace: a word index, a queue of events, objects with methods, closures, and texts put together.
math.randomseed(7)
local random, format = math.random, string.format

-- A text of made-up words.
local syllables = { "ka", "lo", "mi", "ne", "ru", "sha", "to", "vi", "wen", "ya" }
local function word()
  local parts = {}
  for i = 1, random(1, 4) do parts[i] = syllables[random(#syllables)] end
  return table.concat(parts)
end

local Event = {}
Event.__index = Event
function Event.new(id)
  return setmetatable({ id = id, name = word(), tags = { word(), word() }, at = random() }, Event)
end
function Event:describe() return format("%d:%s@%.3f", self.id, self.name, self.at) end

local index, queue, handlers, log = {}, {}, {}, {}
for id = 1, 700 do
  local event = Event.new(id)
  queue[#queue + 1] = event
  for _, tag in ipairs(event.tags) do
    index[tag] = index[tag] or {}
    table.insert(index[tag], event)
  end
  handlers[event.name] = function(other) return other.id + id end
  if #queue > 200 then
    local done = table.remove(queue, 1)
    log[#log + 1] = done:describe()
    if handlers[done.name] then handlers[done.name](done) end
    for _, tag in ipairs(done.tags) do index[tag] = nil end
  end
  if id % 100 == 0 then
    log = { table.concat(log, "\n"):sub(-2000) }
    handlers = {}
  end
end

-- Lists that grow and are sorted, and a text taken apart.
local numbers = {}
for i = 1, 1500 do numbers[i] = random(1000000) end
table.sort(numbers)
local text = table.concat(numbers, ",")
local fields = {}
for field in text:gmatch("%d+") do fields[#fields + 1] = field end
