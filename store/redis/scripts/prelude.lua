-- What scripts share. Of it each takes what it names, with all that this names: functions are
-- made anew at each call, which costs as much as a command. Empty lines part one thing from
-- the next. A line "--- fence", "--- session" or "--- rate" in a script stands for that file.
--
-- ARGV[1] is the prefix of all keys; a script that is about one worker begins with its id.
-- Numbers that may exceed 2^53 (sessions, terms, iterations) are decimal strings without
-- leading zeros.

local P = ARGV[1]

local FENCE = P .. 'fence'

local LIVE = P .. 'live'

local BYTES = P .. 'bytes'

local IN = P .. 'in'

local SPECS = P .. 'specs'

local REFS = P .. 'refs'

local WORKER = P .. 'w:' .. id

-- HAS is what a worker has: refs "job chunk attempt", and of each a (assigned here) or c
-- (claimed by the worker), how many beats in a row missed it, and how far it is.
local HAS = P .. 'na:' .. id

local RESULTS = P .. 'r:' .. id

local MAXREFS, SILENT, LINGER, KEEP = 256, 120000, 120000, 600000

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

local function termNow() return redis.call('HGET', FENCE, 'term') or '0' end

-- at is the gateway at which the worker listens, known before, when it asks something at one;
-- of ?n1 it may listen elsewhere.
local function at(known, gateway)
  if string.sub(gateway, 1, 1) ~= '?' then return gateway end
  return known or string.sub(gateway, 2)
end

-- emit tells the holder things of the worker, in their order.
local function emit(kind, list)
  local n = redis.call('INCRBY', P .. 'n', #list) - #list
  for i, data in ipairs(list) do
    redis.call('XADD', IN, 'MAXLEN', '~', 200000, '*', 'n', n + i, 'k', kind, 'w', id, 'd', data)
  end
end

-- push tells the worker something, if it is attached, by its gateway; w is whether it is
-- there, its session and its gateway.
-- -> the number of the push
local function push(w, term, kind, data)
  if w[1] ~= '1' then return end
  local seq = redis.call('HINCRBY', WORKER, 'seq', 1)
  redis.call('PUBLISH', P .. 'push:' .. w[3], table.concat({id, w[2], seq, term, kind, data}, '\n'))
  return seq
end

-- all is what the worker has, and what is kept of each.
local function all()
  local refs, is, list = {}, {}, redis.call('HGETALL', HAS)
  for i = 1, #list, 2 do
    refs[#refs + 1] = list[i]
    is[#is + 1] = list[i + 1]
  end
  return refs, is
end

-- remove takes attempts from what the worker has; is are what is kept of each, false: nothing.
-- No ref may be there twice.
local function remove(refs, is)
  local gone, count = {}, {}
  for i, ref in ipairs(refs) do
    if is[i] then
      gone[#gone + 1] = ref
      if string.sub(is[i], 1, 1) == 'a' then
        local job = string.match(ref, '^%S+')
        count[job] = (count[job] or 0) + 1
      end
    end
  end
  if #gone > 0 then redis.call('HDEL', HAS, unpack(gone)) end
  for job, n in pairs(count) do
    if redis.call('HINCRBY', REFS, job, -n) <= 0 then
      redis.call('HDEL', REFS, job)
      redis.call('HDEL', SPECS, job)
    end
  end
end

-- lose forgets results.
local function lose(refs)
  local bytes = 0
  for _, ref in ipairs(refs) do
    local n = redis.call('HSTRLEN', RESULTS, ref)
    if n > 0 then
      redis.call('HDEL', RESULTS, ref)
      bytes = bytes + n
    end
  end
  if bytes > 0 then
    redis.call('DECRBY', BYTES, bytes)
    redis.call('HINCRBY', WORKER, 'bytes', -bytes)
  end
end

local function forget()
  remove(all())
  redis.call('DECRBY', BYTES, tonumber(redis.call('HGET', WORKER, 'bytes') or '0'))
  redis.call('DEL', WORKER, HAS, RESULTS)
  redis.call('ZREM', LIVE, id)
end

-- away ends a session, and says when what is left of the worker is forgotten.
local function away()
  redis.call('HSET', WORKER, 'here', '0')
  local keep = LINGER
  if redis.call('HLEN', RESULTS) > 0 then keep = KEEP end
  redis.call('ZADD', LIVE, now() + keep, id)
end

-- over ends the session of the worker, if it has one, and tells it why; a later one must be
-- above least.
local function over(w, least, why)
  if w[1] == '1' then
    push(w, termNow(), 'replaced', why .. '\n' .. highest(w[2], least))
    redis.call('HSET', WORKER, 'here', '0')
  end
end

-- state is all that the worker is to have: refs, and their jobs' specs.
local function state()
  local out, specs, seen = {}, {}, {}
  local refs, is = all()
  for i, ref in ipairs(refs) do
    local job = string.match(ref, '^%S+')
    if string.sub(is[i], 1, 1) == 'a' then
      local spec = seen[job] or redis.call('HGET', SPECS, job)
      if spec then
        out[#out + 1] = ref
        if not seen[job] then
          seen[job] = spec
          specs[#specs + 1] = job
          specs[#specs + 1] = spec
        end
      end
    end
  end
  return {'OK', redis.call('HGET', WORKER, 'seq'), termNow(), out, specs}
end
