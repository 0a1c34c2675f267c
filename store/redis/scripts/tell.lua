-- tell(term, holder, id): what the holder is to know of a worker, as of the entry n of in.
-- -> OK, n, fields of the worker, refs, results; or GONE
local no = fence(ARGV[2], ARGV[3])
if no then return no end
local id = ARGV[4]
local w = redis.call('HGETALL', worker(id))
if #w == 0 then return {'GONE'} end
return {'OK', redis.call('GET', P .. 'n') or '0', w, redis.call('HKEYS', has(id)), redis.call('HGETALL', results(id))}
