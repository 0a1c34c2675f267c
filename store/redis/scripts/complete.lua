local id = ARGV[2]
-- complete(id, session, gateway, limit, ref, result, ref, result...): takes at most 64 results.
-- Beats alone say that a worker is alive.
-- -> OK, and for each taken, duplicate or unknown; or BUSY
--- session
local limit, refs, more = tonumber(ARGV[5]), {}, 0
for i = 6, #ARGV, 2 do
  refs[#refs + 1] = ARGV[i]
  more = more + #ARGV[i + 1]
end
if #refs == 0 then return {'OK', {}} end
local bytes, own = tonumber(redis.call('GET', BYTES) or '0'), tonumber(w[6] or '0')
if bytes + more > limit or own + more > limit / 4 then return {'BUSY'} end
local is = redis.call('HMGET', HAS, unpack(refs))
local out, taken, set, told, size = {}, {}, {}, {}, 0
for i, ref in ipairs(refs) do
  if is[i] and not taken[ref] then
    out[i] = 'taken'
    taken[ref] = true
    local result = ARGV[5 + 2 * i]
    set[#set + 1] = ref
    set[#set + 1] = result
    told[#told + 1] = result
    size = size + #result
  else
    is[i] = false
    if taken[ref] or redis.call('HEXISTS', RESULTS, ref) == 1 then out[i] = 'duplicate' else out[i] = 'unknown' end
  end
end
if #told > 0 then
  remove(refs, is)
  redis.call('HSET', RESULTS, unpack(set))
  redis.call('INCRBY', BYTES, size)
  redis.call('HINCRBY', WORKER, 'bytes', size)
  emit('result', told)
end
local gateway = at(w[3], ARGV[4])
if w[3] ~= gateway then redis.call('HSET', WORKER, 'gateway', gateway) end
return {'OK', out}
