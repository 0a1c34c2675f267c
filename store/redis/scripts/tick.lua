local id = ''
-- tick(most): who was silent for long is lost, who was lost for long forgotten.
-- -> OK, how many
local late = redis.call('ZRANGEBYSCORE', LIVE, '-inf', now(), 'LIMIT', 0, tonumber(ARGV[2]))
for _, one in ipairs(late) do
  id = one
  WORKER, HAS, RESULTS = P .. 'w:' .. id, P .. 'na:' .. id, P .. 'r:' .. id
  local w = redis.call('HMGET', WORKER, 'here', 'session', 'gateway', 'least')
  if w[1] == '1' then
    over(w, w[4], 'stale_session')
    away()
    emit('part', {w[2] .. ' 0'})
  else
    forget()
  end
end
return {'OK', #late}
