-- first(): nothing that was signed was ever used, unless something was.
if redis.call('EXISTS', P .. 'since') == 0 then redis.call('HSET', P .. 'since', 'run', 'first', 'at', '0') end
return {'OK'}
