-- complete(id, session, gateway, limit, ref, result, ref, result...): takes results.
-- -> OK, and for each taken, duplicate or unknown; or BUSY
local id = ARGV[2]
local no = session(id, ARGV[3])
if no then return no end
local limit, more = tonumber(ARGV[5]), 0
for i = 7, #ARGV, 2 do more = more + #ARGV[i] end
local all, own = tonumber(redis.call('GET', BYTES) or '0'), tonumber(redis.call('HGET', worker(id), 'bytes') or '0')
if all + more > limit or own + more > limit / 4 then return {'BUSY'} end
heard(id, ARGV[4])
local out = {}
for i = 6, #ARGV, 2 do
  local ref, res = ARGV[i], ARGV[i + 1]
  if redis.call('HEXISTS', results(id), ref) == 1 then
    out[#out + 1] = 'duplicate'
  elseif redis.call('HEXISTS', has(id), ref) == 0 then
    out[#out + 1] = 'unknown'
  else
    out[#out + 1] = 'taken'
    remove(id, ref)
    redis.call('HSET', results(id), ref, res)
    redis.call('INCRBY', BYTES, #res)
    redis.call('HINCRBY', worker(id), 'bytes', #res)
    emit('result', id, res)
  end
end
return {'OK', out}
