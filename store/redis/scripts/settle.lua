local id = ARGV[4]
-- settle(term, holder, id, ref...): forgets at most 256 results, none of them twice, whose fate
-- is stable.
--- fence
local w = redis.call('HMGET', WORKER, 'here', 'session', 'gateway')
if not w[2] then return {'GONE'} end
local refs = {}
for i = 5, #ARGV do refs[i - 4] = ARGV[i] end
lose(refs)
remove(refs, redis.call('HMGET', HAS, unpack(refs)))
push(w, ARGV[2], 'settled', table.concat(refs, ','))
if w[1] ~= '1' and redis.call('HLEN', HAS) + redis.call('HLEN', RESULTS) == 0 then -- nothing of it is left
  redis.call('DEL', WORKER)
  redis.call('ZREM', LIVE, id)
end
return {'OK'}
