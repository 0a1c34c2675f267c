local id = ARGV[4]
-- drop(term, holder, id, session, reason): detaches a worker, unless it has attached anew.
-- -> OK
--- fence
local s = ARGV[5]
local w = redis.call('HMGET', WORKER, 'here', 'session', 'gateway', 'least')
if not w[2] then return {'GONE'} end
if less(s, w[2]) then return {'OK'} end
over(w, highest(w[4], s), ARGV[6])
forget()
return {'OK'}
