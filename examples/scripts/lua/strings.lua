-- Pages of text put together, cut into words and counted: strings of all lengths, most of which soon die.
function run()
  local words, sum, seed = {}, 0, 7
  local function random(n) seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n end
  for i = 1, 300 do words[i] = string.char(97 + i % 26):rep(2 + i % 9) .. i end
  for page = 1, math.floor(1500 * scale) do
    local parts = { "page " .. page }
    for i = 2, 10 + random(60) do parts[i] = words[1 + random(300)] .. (i % 7 == 0 and ".\n" or "") end
    local text, counts = table.concat(parts, " "), {}
    for word in text:gmatch("%a+") do
      local key = word:upper()
      counts[key] = (counts[key] or 0) + 1
    end
    for line in text:gmatch("[^\n]+") do sum = (sum * 31 + #line:gsub("(%a)%1+", "%1")) % 1000003 end
    for _, count in pairs(counts) do sum = sum + count end
  end
  return sum % 1000003
end
