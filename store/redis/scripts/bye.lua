local id = ARGV[2]
-- bye(id, session, gone): ends a session; gone: for good, what the worker has goes to others.
--- session
local gone = ARGV[4] == '1'
if gone then
  remove(all())
end
away()
emit('part', {ARGV[3] .. ' ' .. ARGV[4]})
if gone and redis.call('HLEN', RESULTS) == 0 then forget() end
return {'OK'}
