-- drop(term, holder, id, session, reason): detaches a worker, unless it has attached anew.
-- -> OK
local no = fence(ARGV[2], ARGV[3])
if no then return no end
local id, s = ARGV[4], ARGV[5]
local has = redis.call('HGET', worker(id), 'session')
if not has then return {'GONE'} end
if less(s, has) then return {'OK'} end
redis.call('HSET', worker(id), 'least', highest(redis.call('HGET', worker(id), 'least'), s))
over(id, ARGV[6])
forget(id)
return {'OK'}
