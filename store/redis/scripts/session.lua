-- Whether the worker is in the session ARGV[3]; what is known of it.
local w = redis.call('HMGET', WORKER, 'here', 'session', 'gateway', 'seq', 'draining', 'bytes')
if not w[2] then return {'UNKNOWN'} end
if w[2] ~= ARGV[3] then return {'REPLACED', w[2]} end
if w[1] ~= '1' then return {'UNKNOWN'} end
