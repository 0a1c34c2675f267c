-- claim(code, guess, every, burst): uses a code up, unless who tries it has guessed too often.
-- -> OK, the worker, its key, its name, and how many ms were left; or NONE, which counts as a
-- guess; or LATE, 1, and for how long
--- rate
local wait = late(true, ARGV[3], ARGV[4], ARGV[5])
if wait then return {'LATE', 1, wait} end
local key = P .. 'claim:' .. ARGV[2]
local c = redis.call('HMGET', key, 'id', 'key', 'name')
if not c[1] then
  late(false, ARGV[3], ARGV[4], ARGV[5])
  return {'NONE'}
end
local left = redis.call('PTTL', key)
redis.call('DEL', key, P .. 'claimof:' .. c[1])
redis.call('ZREM', P .. 'claims', ARGV[2])
return {'OK', c[1], c[2], c[3], left}
