-- first(): nothing that was signed was ever used, unless something was.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
if redis.call('EXISTS', P .. 'since') == 0 then redis.call('HSET', P .. 'since', 'run', run, 'at', '0') end
return {'OK'}
