-- What all scripts share. ARGV[1] is the prefix of all keys. Numbers that may exceed 2^53
-- (sessions, terms, iterations) are decimal strings without leading zeros.
local P = ARGV[1]
local FENCE, LIVE, BYTES, IN = P .. 'fence', P .. 'live', P .. 'bytes', P .. 'in'
local SPECS, REFS = P .. 'specs', P .. 'refs'
local MAXREFS, SILENT, LINGER, KEEP = 256, 120000, 120000, 600000

local function worker(id) return P .. 'w:' .. id end
local function has(id) return P .. 'na:' .. id end
local function results(id) return P .. 'r:' .. id end

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function highest(...)
  local top = '0'
  for _, x in ipairs({...}) do
    if x and less(top, x) then top = x end
  end
  return top
end

-- fence says why a holder may not write; nil: it may.
local function fence(term, holder)
  local f = redis.call('HMGET', FENCE, 'term', 'holder')
  if not f[1] then return {'NO_FENCE'} end
  if less(term, f[1]) then return {'STALE_TERM', f[1]} end
  if less(f[1], term) then return {'AHEAD', f[1]} end
  if f[2] ~= holder then return {'STALE_TERM', f[1]} end
end

-- emit tells the holder something of a worker.
local function emit(kind, id, data)
  local n = redis.call('INCR', P .. 'n')
  redis.call('XADD', IN, 'MAXLEN', '~', 100000, '*', 'n', n, 'k', kind, 'w', id, 'd', data)
end

-- push tells a worker something, if it is attached, by its gateway.
local function push(id, kind, data)
  local w = redis.call('HMGET', worker(id), 'here', 'session', 'gateway')
  if w[1] ~= '1' then return end
  local seq = redis.call('HINCRBY', worker(id), 'seq', 1)
  local term = redis.call('HGET', FENCE, 'term') or '0'
  redis.call('PUBLISH', P .. 'push:' .. w[3], table.concat({id, w[2], seq, term, kind, data}, '\n'))
end

-- A worker's refs are "job chunk attempt". What is kept of one: a (assigned here) or c
-- (claimed by the worker), how many beats in a row missed it, and how far it is.
local function jobOf(ref) return string.match(ref, '^%S+') end

local function add(id, ref, kind)
  redis.call('HSET', has(id), ref, kind .. ' 0 0')
  if kind == 'a' then redis.call('HINCRBY', REFS, jobOf(ref), 1) end
end

local function remove(id, ref)
  local v = redis.call('HGET', has(id), ref)
  if not v then return end
  redis.call('HDEL', has(id), ref)
  local job = jobOf(ref)
  if string.sub(v, 1, 1) == 'a' and redis.call('HINCRBY', REFS, job, -1) <= 0 then
    redis.call('HDEL', REFS, job)
    redis.call('HDEL', SPECS, job)
  end
end

local function lose(id, ref)
  local n = redis.call('HSTRLEN', results(id), ref)
  if n > 0 then
    redis.call('HDEL', results(id), ref)
    redis.call('DECRBY', BYTES, n)
    redis.call('HINCRBY', worker(id), 'bytes', -n)
  end
  return n > 0
end

local function forget(id)
  for _, ref in ipairs(redis.call('HKEYS', has(id))) do remove(id, ref) end
  redis.call('DECRBY', BYTES, tonumber(redis.call('HGET', worker(id), 'bytes') or '0'))
  redis.call('DEL', worker(id), has(id), results(id))
  redis.call('ZREM', LIVE, id)
end

-- away ends a session, and says when what is left of it is forgotten.
local function away(id)
  redis.call('HSET', worker(id), 'here', '0')
  local keep = LINGER
  if redis.call('HLEN', results(id)) > 0 then keep = KEEP end
  redis.call('ZADD', LIVE, now() + keep, id)
end

-- over ends the session of a worker, if it has one, and tells it why.
local function over(id, why)
  local w = redis.call('HMGET', worker(id), 'here', 'session', 'least')
  if w[1] == '1' then
    push(id, 'replaced', why .. '\n' .. highest(w[2], w[3]))
    redis.call('HSET', worker(id), 'here', '0')
  end
end

-- session says why a call is not of a worker's session; nil: it is.
local function session(id, s)
  local w = redis.call('HMGET', worker(id), 'here', 'session')
  if not w[2] then return {'UNKNOWN'} end
  if w[2] ~= s then return {'REPLACED', w[2]} end
  if w[1] ~= '1' then return {'UNKNOWN'} end
end

-- heard takes in that a worker asked something at a gateway, where it listens, too; of ?n1 it
-- may listen elsewhere.
local function heard(id, gateway)
  if string.sub(gateway, 1, 1) == '?' then
    redis.call('HSETNX', worker(id), 'gateway', string.sub(gateway, 2))
  else
    redis.call('HSET', worker(id), 'gateway', gateway)
  end
  redis.call('ZADD', LIVE, now() + SILENT, id)
end

-- state is all that a worker is to have: refs, and their jobs' specs.
local function state(id)
  local refs, specs, seen = {}, {}, {}
  local all = redis.call('HGETALL', has(id))
  for i = 1, #all, 2 do
    local job = jobOf(all[i])
    if string.sub(all[i + 1], 1, 1) == 'a' then
      local spec = seen[job] or redis.call('HGET', SPECS, job)
      if spec then
        refs[#refs + 1] = all[i]
        if not seen[job] then
          seen[job] = spec
          specs[#specs + 1] = job
          specs[#specs + 1] = spec
        end
      end
    end
  end
  return {'OK', redis.call('HGET', worker(id), 'seq'), redis.call('HGET', FENCE, 'term') or '0', refs, specs}
end
