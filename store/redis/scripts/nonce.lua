-- nonce(key, nonce, time, window, keep): takes the nonce of a request that key signed at time
-- (ms). What began with this run of Redis knows nothing of before: what was signed before that,
-- by a clock that may be window ahead, may have been used.
-- -> OK, USED; or EARLY, and by how much
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local since = redis.call('HMGET', P .. 'since', 'run', 'at')
if since[1] ~= run then
  since[2] = now() + tonumber(ARGV[5])
  redis.call('HSET', P .. 'since', 'run', run, 'at', since[2])
end
local early = tonumber(since[2]) - tonumber(ARGV[4])
if early > 0 then return {'EARLY', early} end
if redis.call('SET', P .. 'nonce:' .. ARGV[2] .. ':' .. ARGV[3], '1', 'NX', 'PX', ARGV[6]) then return {'OK'} end
return {'USED'}
