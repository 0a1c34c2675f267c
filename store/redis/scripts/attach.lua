local id = ARGV[2]
-- attach(id, session, gateway, owner, slots, room, memory, executors, draining, after, most,
-- ref...): begins a session above all that are known; an earlier one ends. The refs are what
-- the worker says it has.
-- -> as assigned, and the refs that it is to stop; or REPLACED and a session that is known, or BUSY
local s = ARGV[3]
local w = redis.call('HMGET', WORKER, 'here', 'session', 'gateway', 'least')
local known = highest(w[2], w[4], ARGV[11])
if not less(known, s) then return {'REPLACED', known} end
if not w[2] and redis.call('ZCARD', LIVE) >= tonumber(ARGV[12]) then return {'BUSY'} end
over(w, w[4], 'replaced')
redis.call('HSET', WORKER, 'here', '1', 'session', s, 'gateway', at(w[3], ARGV[4]), 'seq', '0', 'draining', ARGV[10], 'least', known,
  'owner', ARGV[5], 'slots', ARGV[6], 'room', ARGV[7], 'memory', ARGV[8], 'executors', ARGV[9])
redis.call('ZADD', LIVE, now() + SILENT, id)
local stop, room = {}, MAXREFS - redis.call('HLEN', HAS)
for i = 13, #ARGV do
  local ref = ARGV[i]
  if redis.call('HEXISTS', HAS, ref) == 0 and redis.call('HEXISTS', RESULTS, ref) == 0 then
    if room <= 0 then
      stop[#stop + 1] = ref
    else
      redis.call('HSET', HAS, ref, 'c 0 0')
      room = room - 1
    end
  end
end
emit('join', {''})
local out = state()
out[6] = stop
return out
