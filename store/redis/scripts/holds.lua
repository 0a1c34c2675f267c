local id = ARGV[4]
-- holds(term, holder, id): the names of what a worker has, and of what it has done.
-- -> OK, refs, refs; or GONE
--- fence
if redis.call('EXISTS', WORKER) == 0 then return {'GONE'} end
return {'OK', redis.call('HKEYS', HAS), redis.call('HKEYS', RESULTS)}
