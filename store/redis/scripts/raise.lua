-- raise(term, holder): the fence, never downwards, and of one term one holder alone.
-- -> OK or EMPTY (there was none), the last entry of in, and its number
local term, holder = ARGV[2], ARGV[3]
local f = redis.call('HMGET', FENCE, 'term', 'holder')
if f[1] and (less(term, f[1]) or term == f[1] and holder ~= f[2]) then return {'STALE_TERM', f[1]} end
redis.call('HSET', FENCE, 'term', term, 'holder', holder)
local last = redis.call('XREVRANGE', IN, '+', '-', 'COUNT', 1)
return {f[1] and 'OK' or 'EMPTY', last[1] and last[1][1] or '0-0', redis.call('GET', P .. 'n') or '0'}
