local id = ARGV[4]
-- tell(term, holder, id): what the holder is to know of a worker, as of the entry n of in.
-- -> OK, n, fields of the worker, refs, results; or GONE
--- fence
local w = redis.call('HGETALL', WORKER)
if #w == 0 then return {'GONE'} end
return {'OK', redis.call('GET', P .. 'n') or '0', w, redis.call('HKEYS', HAS), redis.call('HGETALL', RESULTS)}
