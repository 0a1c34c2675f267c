-- bye(id, session, gone): ends a session; gone: for good, what the worker has goes to others.
local id, gone = ARGV[2], ARGV[4] == '1'
local no = session(id, ARGV[3])
if no then return no end
if gone then
  for _, ref in ipairs(redis.call('HKEYS', has(id))) do remove(id, ref) end
end
away(id)
emit('part', id, ARGV[3] .. ' ' .. ARGV[4])
if gone and redis.call('HLEN', results(id)) == 0 then forget(id) end
return {'OK'}
