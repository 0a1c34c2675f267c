-- late counts what somebody asks for, by the clock here, in us: one each every, and burst at
-- once; unless it only looks. A key is when a full burst is there again.
-- -> for how long it is too many; nil: it is not
local function late(look, key, every, burst)
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  key, every = P .. 'rl:' .. key, tonumber(every)
  local full = now + every * tonumber(burst)
  local at = math.min(math.max(tonumber(redis.call('GET', key) or '0'), now), full) + every
  if at > full then return at - full end
  if not look then redis.call('SET', key, string.format('%.0f', at), 'PX', math.ceil((at - now) / 1000)) end
end
