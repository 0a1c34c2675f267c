-- Whether this term's holder (ARGV[2], ARGV[3]) may write.
local fence = redis.call('HMGET', FENCE, 'term', 'holder')
if not fence[1] then return {'NO_FENCE'} end
if fence[1] ~= ARGV[2] then
  if #fence[1] < #ARGV[2] or #fence[1] == #ARGV[2] and fence[1] < ARGV[2] then return {'AHEAD', fence[1]} end
  return {'STALE_TERM', fence[1]}
end
if fence[2] ~= ARGV[3] then return {'STALE_TERM', fence[1]} end
