-- attach(id, session, gateway, owner, slots, room, memory, executors, draining, after, most,
-- ref...): begins a session above all that are known; an earlier one ends. The refs are what
-- the worker says it has.
-- -> as assigned, and the refs that it is to stop; or REPLACED and a session that is known, or BUSY
local id, s, gateway = ARGV[2], ARGV[3], ARGV[4]
local w = redis.call('HMGET', worker(id), 'session', 'least')
local known = highest(w[1], w[2], ARGV[11])
if not less(known, s) then return {'REPLACED', known} end
if not w[1] and redis.call('ZCARD', LIVE) >= tonumber(ARGV[12]) then return {'BUSY'} end
over(id, 'replaced')
redis.call('HSET', worker(id), 'session', s, 'least', known, 'here', '1', 'seq', '0', 'owner', ARGV[5], 'slots', ARGV[6],
  'room', ARGV[7], 'memory', ARGV[8], 'executors', ARGV[9], 'draining', ARGV[10])
heard(id, gateway)
local stop = {}
for i = 13, #ARGV do
  local ref = ARGV[i]
  if redis.call('HEXISTS', has(id), ref) == 0 and redis.call('HEXISTS', results(id), ref) == 0 then
    if redis.call('HLEN', has(id)) >= MAXREFS then stop[#stop + 1] = ref else add(id, ref, 'c') end
  end
end
emit('join', id, '')
local out = state(id)
out[6] = stop
return out
