-- open(code, id, key, name, life, most, again): a worker waits under the hash of a code for so
-- many ms, instead of under an earlier one; again: only if there is none.
-- -> OK, HAS or BUSY
local code, id, life = ARGV[2], ARGV[3], tonumber(ARGV[6])
redis.call('ZREMRANGEBYSCORE', P .. 'claims', '-inf', now())
local old = redis.call('HGET', P .. 'claimof:' .. id, 'code')
local others = redis.call('ZCARD', P .. 'claims')
if old then
  if ARGV[8] == '1' then return {'HAS'} end
  others = others - 1
end
if others >= tonumber(ARGV[7]) then return {'BUSY'} end
if old then
  redis.call('DEL', P .. 'claim:' .. old)
  redis.call('ZREM', P .. 'claims', old)
end
redis.call('HSET', P .. 'claim:' .. code, 'id', id, 'key', ARGV[4], 'name', ARGV[5])
redis.call('HSET', P .. 'claimof:' .. id, 'code', code, 'key', ARGV[4])
redis.call('PEXPIRE', P .. 'claim:' .. code, life)
redis.call('PEXPIRE', P .. 'claimof:' .. id, life)
redis.call('ZADD', P .. 'claims', now() + life, code)
return {'OK'}
