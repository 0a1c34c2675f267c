local id = ARGV[2]
-- assigned(id, session, gateway): all that a worker is to have.
-- -> OK, the number of the latest push, the term, refs, and a job and its spec for each job
--- session
local gateway = at(w[3], ARGV[4])
if w[3] ~= gateway then redis.call('HSET', WORKER, 'gateway', gateway) end
redis.call('ZADD', LIVE, now() + SILENT, id)
return state()
