-- settle(term, holder, id, ref...): forgets results whose fate is stable.
local no = fence(ARGV[2], ARGV[3])
if no then return no end
local id, refs = ARGV[4], {}
if redis.call('EXISTS', worker(id)) == 0 then return {'GONE'} end
for i = 5, #ARGV do
  lose(id, ARGV[i])
  remove(id, ARGV[i])
  refs[#refs + 1] = ARGV[i]
end
push(id, 'settled', table.concat(refs, ','))
if redis.call('HGET', worker(id), 'here') ~= '1' and redis.call('HLEN', has(id)) + redis.call('HLEN', results(id)) == 0 then forget(id) end
return {'OK'}
