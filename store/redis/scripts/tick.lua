-- tick(most): who was silent for long is lost, who was lost for long forgotten.
-- -> OK, how many
local late = redis.call('ZRANGEBYSCORE', LIVE, '-inf', now(), 'LIMIT', 0, tonumber(ARGV[2]))
for _, id in ipairs(late) do
  local w = redis.call('HMGET', worker(id), 'here', 'session')
  if w[1] == '1' then
    over(id, 'stale_session')
    away(id)
    emit('part', id, w[2] .. ' 0')
  else
    forget(id)
  end
end
return {'OK', #late}
